#pragma once

#include <functional>
#include <utility>

#include "model/model.h"

namespace lockstep::runtime::testing {

inline const model::InputSpec images{.shape = {3, 8, 8}, .num_classes = 10};

inline model::Model classifier(std::function<model::Tensor(model::Tensor)> forward) {
  return {.name = "test", .forward = std::move(forward)};
}

}  // namespace lockstep::runtime::testing
