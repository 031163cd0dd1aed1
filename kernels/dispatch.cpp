#include "kernels/dispatch.h"

#include "kernels/spec.h"
#include "kernels/view.h"

namespace lockstep::kernels {

template <class Op>
KernelPtr kernel_for(const Device& device, const Op& op, const KernelIo& io) {
  require_operands(op, io);
  return device.make_kernel(op, io);
}

template <class Op>
void choose_layouts(const Device& device, const Op& op, KernelIo& io) {
  if constexpr (Op::layouts == LayoutRule::by_kernel) {
    device.assign_layouts(op, io);
  } else {
    all_row_major(io);
  }
}

template <class Op>
std::vector<Algorithm> algorithms(const Device& device, const Op& op, const KernelIo& io) {
  return device.offered_algorithms(op, io);
}

std::vector<std::string> op_names() {
  std::vector<std::string> names{std::string(Reshape::name), std::string(Permute::name),
                                 std::string(Expand::name)};
#define LOCKSTEP_OP(Op, header) names.emplace_back(Op::name);
#include "kernels/ops.def"
#define LOCKSTEP_UNARY(Function, name) names.emplace_back(#name);
#define LOCKSTEP_BINARY(Function, name) names.emplace_back(#name);
#include "kernels/pointwise.def"
  return names;
}

#define LOCKSTEP_OP(Op, header)                                             \
  template KernelPtr kernel_for(const Device&, const Op&, const KernelIo&); \
  template void choose_layouts(const Device&, const Op&, KernelIo&);        \
  template std::vector<Algorithm> algorithms(const Device&, const Op&, const KernelIo&);
#include "kernels/ops.def"

}  // namespace lockstep::kernels
