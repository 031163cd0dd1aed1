#include <cmath>

#include "model/define_op.h"

namespace lockstep::model {

std::string parameter_name(const std::string& layer, const char* parameter) {
  return layer.empty() ? parameter : layer + "." + parameter;
}

Initializer uniform_by_fan_in(std::int64_t fan_in) {
  return {.bound = fan_in > 0 ? 1.0F / std::sqrt(static_cast<float>(fan_in)) : 0.0F};
}

}  // namespace lockstep::model
