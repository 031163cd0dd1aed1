#include "kernels/abi.h"

#include <fmt/format.h>

#include <string_view>

#include "kernels/base/abi.h"
#include "kernels/device.h"
#include "kernels/spec.h"

namespace lockstep::kernels {
namespace {

template <class Op>
std::string op_border(std::string_view type) {
  std::string text = fmt::format("{} {} {}:", type, Op::name, sizes_of<Op>());
  Op{}.fields([&]<class Value>(std::string_view name, const Value&) {
    text += fmt::format(" {} {}", name, sizes_of<Value>());
  });
  return text + '\n';
}

}  // namespace

std::string abi_border() {
  std::string text;
#define LOCKSTEP_OP(Op, header) text += op_border<Op>(#Op);
#include "kernels/ops.def"
#define LOCKSTEP_UNARY(Function, name) text += "unary " #name "\n";
#define LOCKSTEP_BINARY(Function, name) text += "binary " #name "\n";
#include "kernels/pointwise.def"
  return text + sizes_of<KernelSpec, Layout, Shape, TensorDesc, KernelIo, Event, Stream, CapturedGraph,
                         Memory, Device, BoundKernel, Kernel, Algorithm, StepState, ControlBlock>();
}

}  // namespace lockstep::kernels
