#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/activation.h"
#include "kernels/base/shape.h"
#include "kernels/matmul_precision.h"

namespace lockstep::kernels {
struct ConvAlgorithm;
struct ExternalAttributes;
}

namespace lockstep::model {

/// The fields of a description as texts.
class AttributeTexts {
 public:
  void operator()(std::string_view name, std::int64_t value);
  void operator()(std::string_view name, double value);
  void operator()(std::string_view name, bool value);
  void operator()(std::string_view name, std::string_view value);
  void operator()(std::string_view name, const std::array<std::int64_t, 2>& pair);
  void operator()(std::string_view name, const Shape& shape);
  void operator()(std::string_view name, kernels::Activation activation);
  void operator()(std::string_view name, const kernels::ConvAlgorithm& algorithm);
  void operator()(std::string_view name, const kernels::ExternalAttributes& attributes);
  /// The same for the whole plan, which says it once.
  void operator()(std::string_view, kernels::MatmulPrecision) {}

  /// Those that differ from `defaults`, in one line.
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

}  // namespace lockstep::model
