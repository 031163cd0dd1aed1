#include "runtime/plan/passes/passes.h"

#include <map>
#include <utility>

#include "kernels/classifier.h"
#include "kernels/reorder.h"
#include "model/spec_op.h"

namespace lockstep::runtime {
namespace {

using kernels::Layout;
using model::Graph;
using model::Node;
using model::Role;
using model::Value;
using model::ValueId;

class LayoutPass {
 public:
  LayoutPass(Graph& graph, const kernels::Device& device) : graph_(graph), device_(device) {
    for (const model::Parameter& parameter : graph.parameters()) {
      if (parameter.copy == model::no_value) continue;
      twins_.emplace(parameter.value, parameter.copy);
      twins_.emplace(parameter.copy, parameter.value);
    }
  }

  void run() {
    for (const Node& node : graph_.nodes()) let_classifier_choose(node);
    for (Node& node : std::exchange(graph_.nodes(), {})) assign(std::move(node));
  }

 private:
  void set_layout(ValueId id, const Layout& layout) {
    graph_.value(id).layout = layout;
    if (const auto twin = twins_.find(id); twin != twins_.end()) graph_.value(twin->second).layout = layout;
  }

  /// The layouts of its parameters, before others that read them: an embedding takes any that lie row-major.
  void let_classifier_choose(const Node& node) {
    if (node.op->as<kernels::ClassifierLoss>() == nullptr) return;
    kernels::KernelIo io = graph_.io(node);
    node.op->choose_layouts(device_, io);
    for (const std::size_t in : {kernels::ClassifierLoss::weight, kernels::ClassifierLoss::bias}) {
      if (in >= node.inputs.size()) continue;
      const Value& value = graph_.value(node.inputs[in]);
      if (value.layout || (value.role != Role::parameter && value.role != Role::parameter_copy)) continue;
      set_layout(node.inputs[in], *io.inputs[in].layout);
    }
  }

  void assign(Node node) {
    take_over_parameter_layouts(node);
    kernels::KernelIo io = graph_.io(node);
    node.op->choose_layouts(device_, io);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      node.inputs[i] = in_layout(node.inputs[i], io.inputs[i].layout_or_row_major(), node);
    }
    std::vector<std::pair<ValueId, ValueId>> reorders_after;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId wanted = node.outputs[i];
      node.outputs[i] = out_of_layout(wanted, io.outputs[i].layout_or_row_major());
      if (node.outputs[i] != wanted) reorders_after.emplace_back(node.outputs[i], wanted);
    }
    graph_.nodes().push_back(node);
    for (const auto& [from, to] : reorders_after) append_reorder(from, to, node);
  }

  /// A gradient has its parameter's layout, which is set before the node that writes it chooses.
  void take_over_parameter_layouts(const Node& node) {
    for (const ValueId output : node.outputs) {
      if (graph_.value(output).role != Role::gradient) continue;
      for (const model::Parameter& parameter : graph_.parameters()) {
        if (parameter.gradient != output) continue;
        graph_.value(output).layout = graph_.value(parameter.value).layout;
      }
    }
  }

  ValueId in_layout(ValueId id, const Layout& layout, const Node& reader) {
    if (!graph_.value(id).layout) set_layout(id, layout);
    if (*graph_.value(id).layout == layout) return id;
    for (const auto& [from, to] : reordered_) {
      if (from == id && *graph_.value(to).layout == layout) return to;
    }
    const ValueId copy = add_copy(id, layout);
    append_reorder(id, copy, reader);
    reordered_.emplace_back(id, copy);
    return copy;
  }

  ValueId out_of_layout(ValueId id, const Layout& layout) {
    if (!graph_.value(id).layout) set_layout(id, layout);
    return *graph_.value(id).layout == layout ? id : add_copy(id, layout);
  }

  ValueId add_copy(ValueId id, const Layout& layout) {
    const Value original = graph_.value(id);
    const ValueId copy = graph_.add_value(original.name + " reordered", original.type, Role::activation);
    graph_.value(copy).layout = layout;
    return copy;
  }

  /// For `beside`, in whose segment it lies.
  void append_reorder(ValueId from, ValueId to, const Node& beside) {
    graph_.nodes().push_back({.id = graph_.new_node_id(),
                              .op = model::make_op(kernels::Reorder{}),
                              .inputs = {from},
                              .outputs = {to},
                              .layer = beside.layer,
                              .phase = beside.phase,
                              .segment = beside.segment});
  }

  Graph& graph_;
  const kernels::Device& device_;
  std::vector<std::pair<ValueId, ValueId>> reordered_;
  std::map<ValueId, ValueId> twins_;  ///< of a parameter its copy, and of that the parameter
};

}  // namespace

void assign_layouts(Graph& graph, const kernels::Device& device, const ParameterLayouts& pinned) {
  for (std::size_t id = 0; id < graph.value_count(); ++id) {
    Value& value = graph.value(static_cast<ValueId>(id));
    const bool fixed =
        value.role == Role::input || value.role == Role::stored || value.role == Role::target ||
        value.role == Role::states || value.role == Role::positions || value.role == Role::cache_rows ||
        value.role == Role::step_state || value.role == Role::control || value.role == Role::cache;
    if (fixed) value.layout = Layout::row_major(value.type.shape);
  }
  for (const model::Parameter& parameter : graph.parameters()) {
    Value& value = graph.value(parameter.value);
    const auto found = pinned.find(value.name);
    if (found == pinned.end()) continue;
    value.layout = found->second;
    if (parameter.copy != model::no_value) graph.value(parameter.copy).layout = found->second;
  }
  LayoutPass(graph, device).run();
}

ParameterLayouts parameter_layouts(const Graph& graph) {
  ParameterLayouts layouts;
  for (const model::Parameter& parameter : graph.parameters()) {
    const Value& value = graph.value(parameter.value);
    layouts.emplace(value.name, value.layout.value_or(Layout::row_major(value.type.shape)));
  }
  return layouts;
}

}  // namespace lockstep::runtime
