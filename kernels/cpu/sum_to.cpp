#include "kernels/sum_to.h"

#include <algorithm>

#include "kernels/cpu/loop_kernel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/pointwise_walk.h"

namespace lockstep::kernels {
namespace {

/// x as the output of a walk, y as the operand that is broadcast to it.
PointwiseWalk walk_of(const KernelIo& io) {
  return pointwise_walk({.inputs = {io.outputs[SumTo::y]}, .outputs = {io.inputs[SumTo::x]}});
}

}  // namespace

KernelPtr prepare(Cpu, const SumTo& op, const KernelIo& io) {
  const PointwiseWalk walk = walk_of(io);
  const std::size_t inner = walk.axes - 1;
  const SumRun run{.n = walk.extents[inner], .to_one = walk.in_strides[0][inner] == 0};
  const std::int64_t sums = io.outputs[SumTo::y].shape.elements();
  return loop_kernel(io, [=, loop = simd::best<SumTo>()](const Addresses& a) {
    std::fill_n(a.out(SumTo::y), sums, 0.0F);
    const std::int64_t runs = run.n == 0 ? 0 : walk.elements() / run.n;
    for (std::int64_t number = 0; number < runs; ++number) {
      std::int64_t from = 0;
      std::int64_t to = 0;
      std::int64_t rest = number;
      for (std::size_t axis = inner; axis-- > 0; rest /= walk.extents[axis]) {
        const std::int64_t index = rest % walk.extents[axis];
        from += index * walk.out_strides[axis];
        to += index * walk.in_strides[0][axis];
      }
      loop(op, run, a.in(SumTo::x) + from, a.out(SumTo::y) + to);
    }
  });
}

}  // namespace lockstep::kernels
