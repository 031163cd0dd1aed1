#include "kernels/fill.h"

#include <algorithm>

#include "kernels/cpu/loop_kernel.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const Fill& op, const KernelIo& io) {
  const std::int64_t n = io.outputs[Fill::y].shape.elements();
  return loop_kernel(io, [n, value = static_cast<float>(op.value)](const Addresses& a) {
    std::fill_n(a.out(Fill::y), n, value);
  });
}

}  // namespace lockstep::kernels
