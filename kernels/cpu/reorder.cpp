#include "kernels/reorder.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/library_kernel.h"
#include "kernels/cpu/onednn.h"

namespace lockstep::kernels {
namespace {

dnnl::memory::desc descriptor(const TensorDesc& tensor) {
  const Layout layout = tensor.layout_or_plain();
  const auto desc = onednn::descriptor(tensor.shape, layout, tensor.dtype);
  if (!desc)
    throw UsageError(
        fmt::format("reorder: oneDNN has no layout {} for {}", layout.str(), tensor.shape.str()));
  return *desc;
}

}  // namespace

KernelPtr prepare(Cpu, const Reorder&, const KernelIo& io) {
  check_count("reorder", io, 1, 1);
  check_shape("reorder", "y", io.outputs[0], io.inputs[0].shape);
  try {
    return library_reorder(descriptor(io.inputs[0]), descriptor(io.outputs[0]));
  } catch (const dnnl::error& error) {
    throw DeviceError(fmt::format("reorder of {}: oneDNN: {}", io.inputs[0].shape.str(), error.what()));
  }
}

}  // namespace lockstep::kernels
