#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/export.h"
#include "kernels/base/shape.h"
#include "kernels/dispatch.h"
#include "kernels/matmul.h"
#include "kernels/op.h"
#include "model/op.h"

namespace lockstep::kernels {
struct Algorithm;
struct ExternalAttributes;
}  // namespace lockstep::kernels

namespace lockstep::model {

/// The fields of a description as texts.
class LOCKSTEP_API AttributeTexts {
 public:
  void operator()(std::string_view name, std::int64_t value);
  void operator()(std::string_view name, double value);
  void operator()(std::string_view name, bool value);
  void operator()(std::string_view name, std::string_view value);
  void operator()(std::string_view name, const std::array<std::int64_t, 2>& pair);
  void operator()(std::string_view name, const Shape& shape);
  void operator()(std::string_view name, kernels::Activation activation);
  void operator()(std::string_view name, const kernels::Algorithm& algorithm);
  void operator()(std::string_view name, const kernels::ExternalAttributes& attributes);
  /// Left out: it is the same in the whole plan, which prints it once.
  void operator()(std::string_view, kernels::MatmulPrecision) {}

  /// The texts that differ from `defaults`, in one line.
  std::string different_from(const AttributeTexts& defaults) const;

 private:
  std::vector<std::string> texts_;
};

template <class Spec>
std::string attributes_of(const Spec& spec) {
  AttributeTexts texts;
  AttributeTexts defaults;
  spec.fields(texts);
  Spec{}.fields(defaults);
  return texts.different_from(defaults);
}

/// Adds the backward nodes of an op: a function of model/ops for each op that has a gradient.
template <class Spec>
using Gradient = void (*)(const Spec&, Backward&);

/// The op of a description. Supplies the defaults for everything that a description leaves out.
template <class Spec>
class SpecOp final : public Op {
 public:
  explicit SpecOp(Spec spec, Gradient<Spec> gradient = nullptr)
      : spec_(std::move(spec)), gradient_(gradient) {}

  /// The same op after `change(spec)`.
  template <class Change>
  OpPtr changed(Change change) const {
    Spec spec = spec_;
    change(spec);
    return std::make_shared<SpecOp>(std::move(spec), gradient_);
  }

  std::string name() const override { return kernels::op_name(spec_); }

  std::string attributes() const override { return attributes_of(spec_); }

  Types infer(TypeSpan inputs) const override {
    if constexpr (requires { spec_.infer(inputs); }) {
      return spec_.infer(inputs);
    } else {
      throw std::logic_error(name() + " stands only in backward");
    }
  }

  void differentiate(Backward& backward) const override {
    if (gradient_ == nullptr)
      kernels::throw_misfit("it has no gradient, and parameters before it learn: give `apply` its function");
    gradient_(spec_, backward);
  }

  double flops(TypeSpan inputs, TypeSpan outputs) const override {
    if constexpr (has_no_kernel) {
      return 0;
    } else if constexpr (requires { spec_.flops(inputs, outputs); }) {
      return spec_.flops(inputs, outputs);
    } else {
      return outputs.empty() ? 0 : static_cast<double>(outputs.front().shape.elements());
    }
  }

  void choose_layouts(const kernels::Device& device, kernels::KernelIo& io) const override {
    if constexpr (has_no_kernel) {
      spec_.view(io);
    } else {
      kernels::choose_layouts(device, spec_, io);
    }
  }

  kernels::KernelPtr kernel(const kernels::Device& device, const kernels::KernelIo& io) const override {
    if constexpr (has_no_kernel) {
      return nullptr;
    } else {
      return kernels::kernel_for(device, spec_, io);
    }
  }

  std::vector<OpPtr> candidates(const kernels::Device& device, const kernels::KernelIo& io) const override {
    std::vector<OpPtr> ops;
    if constexpr (requires { spec_.algorithm; }) {
      for (const auto& algorithm : kernels::algorithms(device, spec_, io)) {
        if (algorithm == spec_.algorithm) continue;
        ops.push_back(changed([&](Spec& spec) { spec.algorithm = algorithm; }));
      }
    }
    return ops;
  }

  std::string algorithm() const override {
    if constexpr (requires { spec_.algorithm; }) {
      return spec_.algorithm.name();
    } else {
      return "automatic";
    }
  }

  bool is_view() const override { return has_no_kernel; }

  std::size_t view_offset(DType input) const override {
    if constexpr (requires { spec_.offset(input); }) {
      return spec_.offset(input);
    } else {
      return 0;
    }
  }

  std::optional<std::size_t> overwrites() const override {
    if constexpr (requires { Spec::overwrites; }) {
      return Spec::overwrites;
    } else {
      return std::nullopt;
    }
  }

  OpPtr with_precision(kernels::MatmulPrecision precision) const override {
    if constexpr (requires { spec_.precision; }) {
      return changed([&](Spec& spec) { spec.precision = precision; });
    } else if constexpr (requires { spec_.forward.precision; }) {
      return changed([&](Spec& spec) { spec.forward.precision = precision; });
    } else {
      return nullptr;
    }
  }

  OpPtr with_activation(kernels::Activation activation) const override {
    if constexpr (requires { spec_.activation; }) {
      if (spec_.activation != kernels::Activation::none) return nullptr;
      return changed([&](Spec& spec) { spec.activation = activation; });
    } else {
      return nullptr;
    }
  }

 protected:
  const void* description(const std::type_info& type) const override {
    return type == typeid(Spec) ? &spec_ : nullptr;
  }

 private:
  static constexpr bool has_no_kernel = requires { Spec::is_view; };

  Spec spec_;
  Gradient<Spec> gradient_;
};

template <class Spec>
OpPtr make_op(Spec spec, Gradient<Spec> gradient = nullptr) {
  return std::make_shared<SpecOp<Spec>>(std::move(spec), gradient);
}

}  // namespace lockstep::model
