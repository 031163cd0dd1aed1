#pragma once

#include "kernels/elementwise.h"
#include "model/op.h"

namespace lockstep::model {

/// a + b, equal shapes.
class Add : public KernelOp<kernels::Add> {
 public:
  std::string name() const override { return "add"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  void differentiate(Backward& backward) const override;
  void choose_layouts(const kernels::Device&, kernels::KernelIo& io) const override { follow_first(io); }
  std::optional<std::size_t> overwrites() const override { return 0; }
};

}  // namespace lockstep::model
