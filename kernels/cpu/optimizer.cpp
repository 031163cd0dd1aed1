#include "kernels/optimizer.h"

#include <algorithm>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/widened.h"

namespace lockstep::kernels {
namespace {

/// `on_range(op, state, addresses, gradients, first, count)` on the team, unless the update is skipped;
/// gradients from `first` on, as f32; `op` has no weight decay behind the decayed elements.
template <class Op, class OnRange>
KernelPtr update_kernel(const Op& op, const KernelIo& io, OnRange on_range) {
  const std::int64_t n = io.inputs[Op::gradient].shape.elements();
  const DType dtype = io.inputs[Op::gradient].dtype;
  if (io.outputs.size() > op.copy_output()) {
    require_dtype("the copy", {io.outputs.back().dtype, io.outputs.back().shape}, DType::bf16);
  }
  Op undecayed = op;
  undecayed.weight_decay = 0;
  return cpu_kernel(io, [=](const Addresses& a) {
    const StepState& state = *a.in<StepState>(Op::state);
    if (state.skip_update != 0) return;
    parallel_ranges(n, n, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
      const auto update = [&](const Op& part, std::int64_t from, std::int64_t to) {
        for_each_widened(dtype, a.in<void>(Op::gradient), from, to - from,
                         [&](const float* gradients, std::int64_t first, std::int64_t count) {
                           on_range(part, state, a, gradients, first, count);
                         });
      };
      const std::int64_t middle = std::clamp(op.decayed, begin, end);
      if (begin < middle) update(op, begin, middle);
      if (middle < end) update(undecayed, middle, end);
    });
  });
}

/// Output `index` from element `first` on; null if it is not there.
template <class Element = float>
Element* from(const Addresses& a, std::size_t index, std::int64_t first) {
  Element* const slice = a.out<Element>(index);
  return slice == nullptr ? nullptr : slice + first;
}

}  // namespace

KernelPtr prepare(Cpu, const SgdUpdate& op, const KernelIo& io) {
  using Op = SgdUpdate;
  return update_kernel(
      op, io,
      [kernel = simd::best<Op>()](const Op& part, const StepState& state, const Addresses& a,
                                  const float* gradient, std::int64_t first, std::int64_t n) {
        kernel(part, state, gradient, a.out(Op::parameter) + first,
               part.has_buffer() ? from(a, Op::buffer, first) : nullptr,
               from<BFloat16>(a, part.copy_output(), first), n);
      });
}

KernelPtr prepare(Cpu, const AdamUpdate& op, const KernelIo& io) {
  using Op = AdamUpdate;
  return update_kernel(
      op, io,
      [kernel = simd::best<Op>()](const Op& part, const StepState& state, const Addresses& a,
                                  const float* gradient, std::int64_t first, std::int64_t n) {
        kernel(part, state, gradient, a.out(Op::parameter) + first, a.out(Op::exp_avg) + first,
               a.out(Op::exp_avg_sq) + first, part.amsgrad ? from(a, Op::max_exp_avg_sq, first) : nullptr,
               from<BFloat16>(a, part.copy_output(), first), n);
      });
}

}  // namespace lockstep::kernels
