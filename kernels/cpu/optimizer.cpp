#include "kernels/optimizer.h"

#include "kernels/cpu/loop_kernel.h"
#include "kernels/cpu/loops/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/op_rules.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t cache_line = 16;  // floats

}  // namespace

KernelPtr prepare(Cpu, const SgdUpdate& spec, const KernelIo& io) {
  const bool has_momentum = spec.momentum != 0;
  const std::int64_t n = check_update("sgd_update", io, has_momentum ? 2 : 1);
  return loop_kernel([spec, n, has_momentum](const Addresses& a) {
    const StepState& state = *a.at<StepState>(1);
    if (state.skip_update != 0) return;
    parallel_ranges(n, n, cache_line, [&](std::int64_t begin, std::int64_t end) {
      loops::best().sgd(spec, state, a.at(0) + begin, a.at(2) + begin,
                        has_momentum ? a.at(3) + begin : nullptr, end - begin);
    });
  });
}

KernelPtr prepare(Cpu, const AdamUpdate& spec, const KernelIo& io) {
  const std::int64_t n = check_update("adam_update", io, 3);
  return loop_kernel([spec, n](const Addresses& a) {
    const StepState& state = *a.at<StepState>(1);
    if (state.skip_update != 0) return;
    parallel_ranges(n, n, cache_line, [&](std::int64_t begin, std::int64_t end) {
      loops::best().adam(spec, state, a.at(0) + begin, a.at(2) + begin, a.at(3) + begin, a.at(4) + begin,
                         end - begin);
    });
  });
}

}  // namespace lockstep::kernels
