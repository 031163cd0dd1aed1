#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/linear_gelu.h"
#include "kernels/pointwise.h"

/// LinearGelu and LinearBackwardGelu as two kernels that each backend has: a product, then a pass. Who
/// includes it declares its backend's `prepare` for Linear, LinearBackwardData and Pointwise.
namespace lockstep::kernels {

/// One kernel behind another, in the same scratch memory. Each takes operands of the whole by their places
/// among its inputs and outputs.
class TwoKernels final : public Kernel {
 public:
  struct Part {
    KernelPtr kernel;
    std::vector<std::size_t> operands;
  };

  TwoKernels(Part first, Part second) : parts_{std::move(first), std::move(second)} {}

  std::size_t workspace_bytes() const override {
    return std::max(parts_[0].kernel->workspace_bytes(), parts_[1].kernel->workspace_bytes());
  }

  std::optional<LibraryPlan> library_plan() const override {
    return LibraryPlan{.name = "apart", .notes = {std::string(gelu_apart_note)}};
  }

  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    auto bound = std::make_unique<Bound>();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      std::vector<void*> own;
      for (const std::size_t operand : parts_[i].operands) own.push_back(args[operand]);
      bound->parts[i] = parts_[i].kernel->bind(own, workspace);
    }
    return bound;
  }

 private:
  struct Bound final : BoundKernel {
    std::array<std::unique_ptr<BoundKernel>, 2> parts;
    void launch(Stream& stream) override {
      for (const auto& part : parts) part->launch(stream);
    }
  };

  std::array<Part, 2> parts_;
};

/// Where nobody wants `pre` the product writes y, which the pass overwrites.
template <class Backend>
KernelPtr linear_gelu_apart(Backend backend, const LinearGelu& op, const KernelIo& io) {
  using Op = LinearGelu;
  const TensorDesc& y = io.outputs[Op::y];
  const std::size_t outputs_at = io.inputs.size();
  const std::size_t product_at = outputs_at + (io.outputs.size() > Op::pre ? Op::pre : Op::y);
  std::vector<std::size_t> of_product(outputs_at);
  for (std::size_t i = 0; i < outputs_at; ++i) of_product[i] = i;
  of_product.push_back(product_at);
  const Pointwise gelu = Pointwise::single(PointwiseFunction::gelu_tanh);
  return std::make_unique<TwoKernels>(
      TwoKernels::Part{prepare(backend, Linear{.precision = op.precision}, {io.inputs, {y}}), of_product},
      TwoKernels::Part{prepare(backend, gelu, {{y}, {y}}), {product_at, outputs_at + Op::y}});
}

template <class Backend>
KernelPtr linear_backward_gelu_apart(Backend backend, const LinearBackwardGelu& op, const KernelIo& io) {
  using Op = LinearBackwardGelu;
  const TensorDesc& pre = io.inputs[Op::pre];
  const std::size_t dpre_at = io.inputs.size() + Op::dpre;
  const LinearBackwardData product{.precision = op.precision};
  const Pointwise gelu = Pointwise::single(PointwiseFunction::gelu_tanh, PointwisePart::gradient);
  return std::make_unique<TwoKernels>(
      TwoKernels::Part{prepare(backend, product, {{io.inputs[Op::dy], io.inputs[Op::w]}, {pre}}),
                       {Op::dy, Op::w, dpre_at}},
      TwoKernels::Part{prepare(backend, gelu, {{pre, pre}, {pre}}), {Op::pre, dpre_at, dpre_at}});
}

}  // namespace lockstep::kernels
