#pragma once

// What a file of model/ops needs: an op's gradient as a function, and the layer that models call.
#include <string>
#include <utility>
#include <vector>

#include "model/backward.h"
#include "model/layers.h"

namespace lockstep::model {

/// Adds the node of `spec`; gives its outputs.
template <class Spec>
std::vector<Tensor> apply_all(Graph& graph, Spec spec, Gradient<Spec> gradient, std::vector<ValueId> inputs,
                              const std::string& layer) {
  std::vector<Tensor> outputs;
  for (const ValueId id : graph.add_node(make_op(std::move(spec), gradient), std::move(inputs), layer)) {
    outputs.emplace_back(graph, id);
  }
  return outputs;
}

/// The same for an op with one output.
template <class Spec>
Tensor apply(Graph& graph, Spec spec, Gradient<Spec> gradient, std::vector<ValueId> inputs,
             const std::string& layer) {
  return apply_all(graph, std::move(spec), gradient, std::move(inputs), layer).front();
}

/// "fc1.weight". A network that is one bare layer has parameters without a prefix, as nn.Linear alone has in
/// PyTorch.
std::string parameter_name(const std::string& layer, const char* parameter);

/// torch.nn's reset_parameters: kaiming_uniform with a = sqrt(5) is uniform in +-1/sqrt(fan_in), as is the
/// bias.
Initializer uniform_by_fan_in(std::int64_t fan_in);

}  // namespace lockstep::model
