#pragma once

#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include "kernels/base/export.h"
#include "kernels/device.h"
#include "kernels/matmul.h"

namespace lockstep::kernels {
struct Pointwise;
}

namespace lockstep::model {

class Backward;

using ValueType = kernels::TensorType;
using kernels::Types;
using kernels::TypeSpan;

/// One operation of the graph without its description: the interface of the passes. Immutable, shared between
/// graphs.
class LOCKSTEP_API Op {
 public:
  virtual ~Op() = default;
  virtual std::string name() const = 0;
  /// What differs from the defaults of the description, for the printed plan: "kernel 3x3 padding 1x1".
  virtual std::string attributes() const = 0;

  /// Types of the outputs of a forward op. UsageError on inputs that do not fit; the graph adds the layer's
  /// name.
  virtual Types infer(TypeSpan inputs) const = 0;

  /// Adds the nodes that compute the gradients of the inputs from those of the outputs. UsageError where the
  /// op has no gradient; the pass adds the layer's name.
  virtual void differentiate(Backward& backward) const = 0;

  /// Floating-point operations of one launch.
  virtual double flops(TypeSpan inputs, TypeSpan outputs) const = 0;

  /// Gives every tensor the layout that the kernel takes, also one that has another: see kernels/dispatch.h.
  virtual void choose_layouts(const kernels::Device& device, kernels::KernelIo& io) const = 0;

  /// The kernel for tensors whose layouts are all set; null for a view.
  virtual kernels::KernelPtr kernel(const kernels::Device& device, const kernels::KernelIo& io) const = 0;

  /// The same op with each other algorithm that the device offers, for `--benchmark` to time; often none.
  virtual std::vector<std::shared_ptr<const Op>> candidates(const kernels::Device& device,
                                                            const kernels::KernelIo& io) const = 0;
  /// Name of its algorithm, without spaces; selected algorithms are stored by it.
  virtual std::string algorithm() const = 0;

  /// Output 0 is the memory of input 0.
  virtual bool is_view() const = 0;
  /// From so many bytes on, of an input of this type.
  virtual std::size_t view_offset(DType input) const = 0;
  /// The input that output 0 may overwrite, if no later node reads it.
  virtual std::optional<std::size_t> overwrites() const = 0;

  /// The same op with another precision of its products; null if it is no matrix product or convolution.
  virtual std::shared_ptr<const Op> with_precision(kernels::MatmulPrecision precision) const = 0;
  /// The same op with an epilogue; null if it takes none, or has one.
  virtual std::shared_ptr<const Op> with_activation(kernels::Activation activation) const = 0;

  /// The description, if its type is `Spec`; null otherwise.
  template <class Spec>
  const Spec* as() const {
    return static_cast<const Spec*>(description(typeid(Spec)));
  }

 protected:
  virtual const void* description(const std::type_info& type) const = 0;
};

using OpPtr = std::shared_ptr<const Op>;

}  // namespace lockstep::model
