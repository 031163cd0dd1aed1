#include "kernels/optimizer.h"

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"

namespace lockstep::kernels {
namespace {

/// `on_range(state, addresses, first, count)` on the team, unless the update is skipped.
template <class OnRange>
KernelPtr update_kernel(const KernelIo& io, std::size_t state_at, OnRange on_range) {
  const std::int64_t n = io.inputs[0].shape.elements();
  return simd_kernel(io, [=](const Addresses& a) {
    const StepState& state = *a.in<StepState>(state_at);
    if (state.skip_update != 0) return;
    parallel_ranges(n, n, cache_line_floats,
                    [&](std::int64_t begin, std::int64_t end) { on_range(state, a, begin, end - begin); });
  });
}

}  // namespace

KernelPtr prepare(Cpu, const SgdUpdate& op, const KernelIo& io) {
  using Op = SgdUpdate;
  return update_kernel(io, Op::state,
                       [op, kernel = simd::best<Op>()](const StepState& state, const Addresses& a,
                                                       std::int64_t first, std::int64_t n) {
                         float* const buffer = a.out(Op::buffer);
                         kernel(op, state, a.in(Op::gradient) + first, a.out(Op::parameter) + first,
                                buffer == nullptr ? nullptr : buffer + first, n);
                       });
}

KernelPtr prepare(Cpu, const AdamUpdate& op, const KernelIo& io) {
  using Op = AdamUpdate;
  return update_kernel(io, Op::state,
                       [op, kernel = simd::best<Op>()](const StepState& state, const Addresses& a,
                                                       std::int64_t first, std::int64_t n) {
                         kernel(op, state, a.in(Op::gradient) + first, a.out(Op::parameter) + first,
                                a.out(Op::exp_avg) + first, a.out(Op::exp_avg_sq) + first, n);
                       });
}

}  // namespace lockstep::kernels
