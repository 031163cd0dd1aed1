#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/model.h"
#include "runtime/plan/plan.h"

namespace lockstep::runtime::testing {

inline const model::InputSpec images{.shape = {3, 8, 8}, .num_classes = 10};
inline constexpr BucketLimits bucket_for_each{.first_bytes = 1, .bytes = 1};

inline model::Model classifier(std::function<model::Tensor(model::Tensor)> forward) {
  return {.name = "test", .forward = std::move(forward)};
}

/// A convolution, pooling and two linear layers on `images`.
inline model::Tensor small_net(model::Tensor x) {
  x = max_pool2d(relu(conv2d(x, "conv", {.out_channels = 4, .kernel = 3, .padding = 1})));
  return linear(relu(linear(flatten(x), "fc1", 6)), "fc2", 10);
}

/// Names of the ops in order, with a '+' behind a fused one.
inline std::vector<std::string> ops_of(const model::Graph& graph) {
  std::vector<std::string> names;
  for (const model::Node& node : graph.nodes()) {
    const std::string attributes = node.op->attributes();
    const bool fused =
        attributes.find('+') != std::string::npos || attributes.find("relu_mask") != std::string::npos;
    names.push_back(node.op->name() + (fused ? "+" : ""));
  }
  return names;
}

inline Plan plan_of(const model::Model& net, const kernels::Device& device, PlanRequest request = {}) {
  request.key.batch = 4;
  return make_plan(net, images, request, device, {});
}

inline Plan plan_with_many_buckets(const kernels::Device& device, const ScheduleOptions& schedule,
                                   double clip_grad_norm = 0) {
  return plan_of(classifier(small_net), device,
                 {.buckets = bucket_for_each, .schedule = schedule, .clip_grad_norm = clip_grad_norm});
}

}  // namespace lockstep::runtime::testing
