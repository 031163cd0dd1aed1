#include "model/op.h"

#include <stdexcept>

namespace lockstep::model {

void Op::differentiate(Backward&) const {
  throw std::logic_error(name() + " has no gradient");
}

double Op::flops(std::span<const ValueType>, std::span<const ValueType> outputs) const {
  return outputs.empty() ? 0.0 : static_cast<double>(outputs.front().shape.elements());
}

void Op::choose_layouts(const kernels::Device&, kernels::KernelIo& io) const {
  kernels::all_plain(io);
}

std::vector<std::shared_ptr<const Op>> Op::variants(const kernels::Device&, const kernels::KernelIo&) const {
  return {};
}

}  // namespace lockstep::model
