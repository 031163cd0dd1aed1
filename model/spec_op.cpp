#include "model/spec_op.h"

#include <fmt/format.h>

#include "kernels/conv2d.h"
#include "kernels/external_op.h"

namespace lockstep::model {

void AttributeTexts::operator()(std::string_view name, std::int64_t value) {
  texts_.push_back(fmt::format("{} {}", name, value));
}

void AttributeTexts::operator()(std::string_view name, double value) {
  texts_.push_back(fmt::format("{} {}", name, value));
}

void AttributeTexts::operator()(std::string_view name, bool value) {
  texts_.push_back(value ? std::string(name) : fmt::format("no {}", name));
}

void AttributeTexts::operator()(std::string_view name, std::string_view value) {
  texts_.push_back(fmt::format("{} {}", name, value));
}

void AttributeTexts::operator()(std::string_view name, const std::array<std::int64_t, 2>& pair) {
  texts_.push_back(fmt::format("{} {}x{}", name, pair[0], pair[1]));
}

void AttributeTexts::operator()(std::string_view, const Shape& shape) {
  texts_.push_back(shape.str());
}

void AttributeTexts::operator()(std::string_view, kernels::Activation activation) {
  texts_.push_back(fmt::format("+{}", kernels::name_of(activation)));
}

void AttributeTexts::operator()(std::string_view, const kernels::Algorithm& algorithm) {
  texts_.push_back(algorithm.name());
}

void AttributeTexts::operator()(std::string_view, const kernels::ExternalAttributes& attributes) {
  texts_.push_back(attributes.text);
}

std::string AttributeTexts::different_from(const AttributeTexts& defaults) const {
  std::string line;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i] == defaults.texts_[i]) continue;
    line += (line.empty() ? "" : " ") + texts_[i];
  }
  return line;
}

}  // namespace lockstep::model
