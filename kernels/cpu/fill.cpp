#include "kernels/fill.h"

#include <algorithm>

#include "kernels/base/half.h"
#include "kernels/cpu/cpu_kernel.h"

namespace lockstep::kernels {
namespace {

template <class Element>
KernelPtr fill(const KernelIo& io, Element value) {
  const std::int64_t n = io.outputs[Fill::y].shape.elements();
  return cpu_kernel(io, [n, value](const Addresses& a) { std::fill_n(a.out<Element>(Fill::y), n, value); });
}

template <class Half>
Half rounded(float value) {
  Half half;
  narrow(value, half);
  return half;
}

}  // namespace

KernelPtr prepare(Cpu, const Fill& op, const KernelIo& io) {
  const auto value = static_cast<float>(op.value);
  switch (io.outputs[Fill::y].dtype) {
    case DType::bf16:
      return fill(io, rounded<BFloat16>(value));
    case DType::f16:
      return fill(io, rounded<Float16>(value));
    default:
      return fill(io, value);
  }
}

}  // namespace lockstep::kernels
