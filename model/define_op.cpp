#include "model/define_op.h"

#include <algorithm>
#include <cmath>

#include "kernels/fill.h"
#include "kernels/pointwise.h"

namespace lockstep::model {

ValueId Backward::add_node(OpPtr op, std::vector<ValueId> operands, const ValueType& type) {
  return add_nodes(std::move(op), std::move(operands), {type}).front();
}

std::vector<ValueId> Backward::add_nodes(OpPtr op, std::vector<ValueId> operands, const Types& types) {
  auto outputs = graph_.add_backward_node(std::move(op), std::move(operands), types, node_.layer);
  gradients_.resize(graph_.value_count(), no_value);
  return outputs;
}

ValueId Backward::output_gradient(std::size_t index) {
  const ValueId output = node_.outputs[index];
  const ValueId known = gradients_[static_cast<std::size_t>(output)];
  return known != no_value ? known : add_node(make_op(kernels::Fill{}), {}, type(output));
}

void Backward::add_gradient_node(OpPtr op, std::vector<ValueId> operands,
                                 const std::vector<std::size_t>& of_inputs) {
  if (std::ranges::none_of(of_inputs, [this](std::size_t input) { return needs(input); })) return;
  Types types;
  for (const std::size_t input : of_inputs) types.push_back(type(node_.inputs[input]));
  const auto outputs = add_nodes(std::move(op), std::move(operands), types);
  for (std::size_t i = 0; i < outputs.size(); ++i) contribute(of_inputs[i], outputs[i]);
}

void Backward::contribute(std::size_t input_index, ValueId gradient) {
  if (!needs(input_index)) return;
  const auto at = static_cast<std::size_t>(node_.inputs[input_index]);
  const ValueId known = gradients_[at];
  const auto sum = [&] {
    return add_node(make_op(kernels::Pointwise::single(kernels::PointwiseFunction::add)), {known, gradient},
                    type(gradient));
  };
  gradients_[at] = known == no_value ? gradient : sum();
}

std::vector<Tensor> apply_op(Graph& graph, OpPtr op, const std::vector<Tensor>& inputs,
                             const std::string& layer) {
  std::vector<ValueId> ids;  // the id of a stray tensor may be that of another value here
  for (const Tensor& input : inputs) ids.push_back(input.is_of(graph) ? input.id() : no_value);
  std::vector<Tensor> outputs;
  for (const ValueId id : graph.add_node(std::move(op), std::move(ids), layer))
    outputs.emplace_back(graph, id);
  return outputs;
}

std::string parameter_name(const std::string& layer, const char* parameter) {
  return layer.empty() ? parameter : layer + "." + parameter;
}

std::string layer_of(Tensor parameter) {
  const std::string& name = parameter.graph().given(parameter.id()).name;
  return name.substr(0, name.rfind('.'));
}

Tensor parameter(Graph& graph, const std::string& name, Shape shape, Initializer initializer) {
  return {graph, graph.add_parameter(name, shape, initializer)};
}

Initializer uniform_by_fan_in(std::int64_t fan_in) {
  return {.bound = fan_in > 0 ? 1.0F / std::sqrt(static_cast<float>(fan_in)) : 0.0F};
}

WeightAndBias initializers(const std::optional<Initializer>& asked, std::int64_t fan_in) {
  if (asked) return {.weight = *asked, .bias = {}};
  return {.weight = uniform_by_fan_in(fan_in), .bias = uniform_by_fan_in(fan_in)};
}

}  // namespace lockstep::model
