#include "kernels/elementwise.h"

#include "kernels/cpu/loop_kernel.h"
#include "kernels/cpu/loops/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/op_rules.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t cache_line = 16;  // floats

}  // namespace

KernelPtr prepare(Cpu, const ReluForward&, const KernelIo& io) {
  const std::int64_t n = check_elementwise("relu_forward", io, 1);
  return loop_kernel([n](const Addresses& a) {
    parallel_ranges(n, n, cache_line, [&](std::int64_t begin, std::int64_t end) {
      loops::best().relu(a.at(0) + begin, a.at(1) + begin, end - begin);
    });
  });
}

KernelPtr prepare(Cpu, const ReluBackward&, const KernelIo& io) {
  const std::int64_t n = check_elementwise("relu_backward", io, 2);
  return loop_kernel([n](const Addresses& a) {
    parallel_ranges(n, n, cache_line, [&](std::int64_t begin, std::int64_t end) {
      loops::best().relu_backward(a.at(0) + begin, a.at(1) + begin, a.at(2) + begin, end - begin);
    });
  });
}

KernelPtr prepare(Cpu, const Add&, const KernelIo& io) {
  const std::int64_t n = check_elementwise("add", io, 2);
  return loop_kernel([n](const Addresses& a) {
    parallel_ranges(n, n, cache_line, [&](std::int64_t begin, std::int64_t end) {
      loops::best().add(a.at(0) + begin, a.at(1) + begin, a.at(2) + begin, end - begin);
    });
  });
}

}  // namespace lockstep::kernels
