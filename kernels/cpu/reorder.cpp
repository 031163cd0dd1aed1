#include "kernels/reorder.h"

#include <memory>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/onednn_op.h"
#include "kernels/cpu/table_reorder.h"

namespace lockstep::kernels {

void choose_layouts(Cpu, const Reorder&, KernelIo& io) {
  keep_layouts(io);
}

KernelPtr prepare(Cpu cpu, const Reorder&, const KernelIo& io) {
  const TensorDesc& x = io.inputs[Reorder::x];
  if (onednn::has_type(x.dtype) || !TableReorder::takes(x.type()))
    return onednn_copy(cpu.onednn, Reorder::name, io);
  const auto table = std::make_shared<const TableReorder>(x.shape, x.dtype, x.layout_or_row_major(),
                                                          io.outputs[Reorder::y].layout_or_row_major());
  return cpu_kernel(
      io, [table](const Addresses& a) { table->run(a.in<void>(Reorder::x), a.out<void>(Reorder::y)); });
}

}  // namespace lockstep::kernels
