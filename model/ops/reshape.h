#pragma once

#include "model/op.h"

namespace lockstep::model {

/// The same numbers, row-major, in another shape: no kernel. `flatten` keeps the first dimension; its
/// gradient is the way back.
class Reshape : public Op {
 public:
  explicit Reshape(Shape shape) : shape_(std::move(shape)) {}
  std::string name() const override { return "reshape"; }
  std::string attributes() const override { return shape_.str(); }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  void differentiate(Backward& backward) const override;
  double flops(std::span<const ValueType>, std::span<const ValueType>) const override { return 0; }
  kernels::KernelPtr prepare(const kernels::Device&, const kernels::KernelIo&) const override {
    return nullptr;
  }
  std::optional<std::size_t> view_of() const override { return 0; }

 private:
  Shape shape_;
};

}  // namespace lockstep::model
