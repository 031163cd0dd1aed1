#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/dispatch.h"
#include "kernels/kernel.h"

namespace lockstep::model {

class Backward;

/// What shape inference knows of a value.
struct ValueType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const ValueType&) const = default;
};

/// One operation of the graph: its shapes, its gradient, its kernel. Immutable, shared between graphs.
class Op {
 public:
  virtual ~Op() = default;
  virtual std::string name() const = 0;
  /// Attributes in a few characters, for the printed plan: "3x3 pad 1 +relu".
  virtual std::string attributes() const { return {}; }

  /// Types of the outputs. UsageError on inputs that do not fit; the graph adds the layer's name.
  virtual std::vector<ValueType> infer(std::span<const ValueType> inputs) const = 0;

  /// Adds the nodes that compute the gradients of the inputs from those of the outputs. Ops that stand only
  /// in backward keep the default, which throws.
  virtual void differentiate(Backward& backward) const;

  /// Floating-point operations of one launch.
  virtual double flops(std::span<const ValueType> inputs, std::span<const ValueType> outputs) const;

  /// Settles the layouts that are still free; see kernels/layout.h.
  virtual void choose_layouts(const kernels::Device& device, kernels::KernelIo& io) const;

  /// The kernel for tensors with settled layouts; none for an op that only renames memory.
  virtual kernels::KernelPtr prepare(const kernels::Device& device, const kernels::KernelIo& io) const = 0;

  /// The same op with each other algorithm that the device offers, for `--benchmark` to time; often none.
  virtual std::vector<std::shared_ptr<const Op>> variants(const kernels::Device& device,
                                                          const kernels::KernelIo& io) const;

  /// What it is computed with, without spaces: for a choice among `variants` to name one.
  virtual std::string algorithm() const { return "automatic"; }

  /// The input whose memory output 0 simply is (a view).
  virtual std::optional<std::size_t> view_of() const { return std::nullopt; }
  /// The input that output 0 may overwrite, if nobody reads it later.
  virtual std::optional<std::size_t> overwrites() const { return std::nullopt; }
};

using OpPtr = std::shared_ptr<const Op>;

/// Base of ops that are one kernel: holds the kernel's description.
template <class Spec>
class KernelOp : public Op {
 public:
  explicit KernelOp(Spec spec = {}) : spec_(spec) {}
  const Spec& spec() const { return spec_; }
  /// For who copies an op to change it, before it is shared.
  Spec& edit() { return spec_; }

  kernels::KernelPtr prepare(const kernels::Device& device, const kernels::KernelIo& io) const override {
    return kernels::prepare(device, spec_, io);
  }

 private:
  Spec spec_;
};

/// A kernel op whose kernel has a say in the layouts.
template <class Spec>
class LayoutKernelOp : public KernelOp<Spec> {
 public:
  using KernelOp<Spec>::KernelOp;
  void choose_layouts(const kernels::Device& device, kernels::KernelIo& io) const override {
    kernels::choose_layouts(device, this->spec(), io);
  }
};

}  // namespace lockstep::model
