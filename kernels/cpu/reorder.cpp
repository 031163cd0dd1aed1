#include "kernels/reorder.h"

#include <memory>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/onednn_op.h"
#include "kernels/cpu/table_reorder.h"

namespace lockstep::kernels {

void choose_layouts(Cpu, const Reorder&, KernelIo& io) {
  keep_layouts(io);
}

namespace {

/// Room behind rows, which a copy has to fill with zeros: the library leaves that of a single row as it is.
bool has_room(const TensorDesc& tensor) {
  const Layout layout = tensor.layout_or_row_major();
  return layout.blocks.empty() && layout.padded != tensor.shape;
}

}  // namespace

KernelPtr prepare(Cpu cpu, const Reorder&, const KernelIo& io) {
  const TensorDesc& x = io.inputs[Reorder::x];
  const bool by_library = onednn::has_type(x.dtype) && !has_room(io.outputs[Reorder::y]);
  if (by_library || !TableReorder::takes(x.type())) return onednn_copy(cpu.onednn, Reorder::name, io);
  const auto table = std::make_shared<const TableReorder>(x.shape, x.dtype, x.layout_or_row_major(),
                                                          io.outputs[Reorder::y].layout_or_row_major());
  return cpu_kernel(
      io, [table](const Addresses& a) { table->run(a.in<void>(Reorder::x), a.out<void>(Reorder::y)); });
}

}  // namespace lockstep::kernels
