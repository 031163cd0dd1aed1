#include "kernels/elementwise.h"

#include "kernels/check.h"
#include "kernels/cpu/loop_kernel.h"
#include "kernels/cpu/loops/loops.h"
#include "kernels/cpu/parallel.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t cache_line = 16;  // floats

/// Checks that all tensors are f32 of one shape and layout; returns their elements, padding included.
std::int64_t common_span(std::string_view kernel, const KernelIo& io, std::size_t inputs) {
  check_count(kernel, io, inputs, 1);
  const Layout layout = io.inputs[0].layout_or_plain();
  for (const auto* side : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *side) {
      check_shape(kernel, "a tensor", desc, io.inputs[0].shape);
      check_type(kernel, "a tensor", desc, DType::f32);
      if (desc.layout_or_plain() == layout) continue;
      throw UsageError(
          fmt::format("{}: {} and {} lie differently", kernel, layout.str(), desc.layout_or_plain().str()));
    }
  }
  return layout.span();
}

}  // namespace

KernelPtr prepare(Cpu, const ReluForward&, const KernelIo& io) {
  const std::int64_t n = common_span("relu_forward", io, 1);
  return loop_kernel([n](const Addresses& a) {
    parallel_ranges(n, n, cache_line, [&](std::int64_t begin, std::int64_t end) {
      loops::best().relu(a.at(0) + begin, a.at(1) + begin, end - begin);
    });
  });
}

KernelPtr prepare(Cpu, const ReluBackward&, const KernelIo& io) {
  const std::int64_t n = common_span("relu_backward", io, 2);
  return loop_kernel([n](const Addresses& a) {
    parallel_ranges(n, n, cache_line, [&](std::int64_t begin, std::int64_t end) {
      loops::best().relu_backward(a.at(0) + begin, a.at(1) + begin, a.at(2) + begin, end - begin);
    });
  });
}

KernelPtr prepare(Cpu, const Add&, const KernelIo& io) {
  const std::int64_t n = common_span("add", io, 2);
  return loop_kernel([n](const Addresses& a) {
    parallel_ranges(n, n, cache_line, [&](std::int64_t begin, std::int64_t end) {
      loops::best().add(a.at(0) + begin, a.at(1) + begin, a.at(2) + begin, end - begin);
    });
  });
}

}  // namespace lockstep::kernels
