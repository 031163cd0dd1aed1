#pragma once

#include "kernels/reorder.h"
#include "model/op.h"

namespace lockstep::model {

/// The same value in another layout; put in by the layout pass, which fixes both layouts.
class Reorder : public KernelOp<kernels::Reorder> {
 public:
  std::string name() const override { return "reorder"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override { return {inputs[0]}; }
  double flops(std::span<const ValueType>, std::span<const ValueType>) const override { return 0; }
};

}  // namespace lockstep::model
