#include "kernels/reorder.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/cpu/onednn_op.h"

namespace lockstep::kernels {
namespace {

dnnl::memory::desc descriptor(const TensorDesc& tensor) {
  const Layout layout = tensor.layout_or_row_major();
  const auto desc = onednn::descriptor(tensor.shape, layout, tensor.dtype);
  if (!desc)
    throw UsageError(
        fmt::format("reorder: oneDNN has no layout {} for {}", layout.str(), tensor.shape.str()));
  return *desc;
}

}  // namespace

void choose_layouts(Cpu, const Reorder&, KernelIo& io) {
  keep_layouts(io);
}

KernelPtr prepare(Cpu cpu, const Reorder&, const KernelIo& io) {
  try {
    return onednn_reorder(cpu.onednn, descriptor(io.inputs[Reorder::x]), descriptor(io.outputs[Reorder::y]));
  } catch (const dnnl::error& error) {
    throw DeviceError(
        fmt::format("reorder of {}: oneDNN: {}", io.inputs[Reorder::x].shape.str(), error.what()));
  }
}

}  // namespace lockstep::kernels
