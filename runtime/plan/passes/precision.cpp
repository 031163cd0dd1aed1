#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/attention.h"
#include "kernels/base/error.h"
#include "kernels/cached_attention.h"
#include "kernels/cast.h"
#include "kernels/classifier.h"
#include "kernels/conv2d.h"
#include "kernels/embedding.h"
#include "kernels/external_op.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/pointwise.h"
#include "kernels/position_encoding.h"
#include "kernels/recurrent.h"
#include "kernels/rms_norm.h"
#include "kernels/split.h"
#include "model/layers.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Node;
using model::ValueId;

template <class... Specs>
bool is_any(const Node& node) {
  return ((node.op->as<Specs>() != nullptr) || ...);
}

/// PyTorch's lists: what gains from narrow factors, what needs the range and exactness of f32, and what
/// takes the widest type of its inputs. Any other op takes its inputs as they come. A plugin's op has f32,
/// for which it was written.
bool computes_narrow(const Node& node) {
  return is_any<kernels::Attention, kernels::ClassifierLoss, kernels::Conv2d, kernels::Linear, kernels::Lstm,
                kernels::Rnn>(node);
}
bool computes_in_f32(const Node& node) {
  return is_any<kernels::CacheAppend, kernels::CachedAttention, kernels::Embedding, kernels::LayerNorm,
                kernels::PositionEncoding, kernels::RmsNorm, kernels::SoftmaxCrossEntropy,
                kernels::MeanSquaredError, kernels::ExternalOp>(node);
}
bool takes_the_widest(const Node& node) {
  return is_any<kernels::Pointwise, kernels::Concat>(node);
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || is_half(dtype);
}

class Autocast {
 public:
  Autocast(Graph& graph, DType narrow) : graph_(graph), narrow_(narrow) {}

  void run() {
    for (Node& node : std::exchange(graph_.nodes(), {})) {
      if (const auto wanted = type_for(node)) {
        for (ValueId& input : node.inputs) input = as(*wanted, input, node.segment);
      }
      if (!graph_.is_update(node)) infer_outputs(node);
      graph_.nodes().push_back(std::move(node));
    }
    graph_.output = as(DType::f32, graph_.output, model::no_segment);
  }

 private:
  DType dtype_of(ValueId id) const { return graph_.value(id).type.dtype; }

  /// Of all inputs that are floating-point numbers; none: they stay as they are.
  std::optional<DType> type_for(const Node& node) const {
    if (computes_narrow(node)) return narrow_;
    if (computes_in_f32(node)) return DType::f32;
    if (!takes_the_widest(node)) return std::nullopt;
    const bool wide =
        std::ranges::any_of(node.inputs, [this](ValueId id) { return dtype_of(id) == DType::f32; });
    return wide ? DType::f32 : narrow_;
  }

  /// One copy of a value for all of its readers, in the segment of the first.
  ValueId as(DType dtype, ValueId id, int segment) {
    if (id == model::no_value || !is_float(dtype_of(id)) || dtype_of(id) == dtype) return id;
    const auto [copy, is_new] = copies_.try_emplace({id, dtype}, model::no_value);
    if (is_new) {
      copy->second = cast(model::Tensor(graph_, id), dtype).id();
      graph_.nodes().back().segment = segment;
    }
    return copy->second;
  }

  model::Types types_given_by(const Node& node) const {
    try {
      return node.op->infer(graph_.types(node.inputs));
    } catch (const UsageError& error) {
      throw UsageError(
          fmt::format("layer '{}' ({}) under --amp: {}", node.layer, node.op->name(), error.what()));
    }
  }

  void infer_outputs(const Node& node) {
    const model::Types types = types_given_by(node);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) graph_.value(node.outputs[i]).type = types[i];
  }

  Graph& graph_;
  const DType narrow_;
  std::map<std::pair<ValueId, DType>, ValueId> copies_;
};

/// Whether `node` cuts up a parameter, and all that reads a part are casts to `narrow`.
bool is_split_for(const Graph& graph, const Node& node, DType narrow) {
  if (node.op->as<kernels::Split>() == nullptr ||
      graph.value(node.inputs[kernels::Split::x]).role != model::Role::parameter)
    return false;
  return std::ranges::all_of(node.outputs, [&](ValueId part) {
    return part != graph.output && std::ranges::all_of(graph.nodes(), [&](const Node& reader) {
             const auto* cast = reader.op->as<kernels::Cast>();
             return std::ranges::count(reader.inputs, part) == 0 || (cast != nullptr && cast->to == narrow);
           });
  });
}

/// Parts of parameters that are only read in `narrow`: a cast before the split takes the place of one behind
/// each part.
void cast_before_splits(Graph& graph, DType narrow) {
  auto& nodes = graph.nodes();
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    if (!is_split_for(graph, nodes[at], narrow)) continue;
    const std::vector<ValueId> parts = nodes[at].outputs;
    const model::Tensor whole(graph, nodes[at].inputs[kernels::Split::x]);
    nodes[at].inputs[kernels::Split::x] = cast(whole, narrow).id();
    std::rotate(nodes.begin() + static_cast<std::ptrdiff_t>(at), nodes.end() - 1, nodes.end());
    ++at;
    for (const ValueId part : parts) {
      graph.value(part).type.dtype = narrow;
      std::vector<ValueId> casts;
      std::erase_if(nodes, [&](const Node& reader) {
        if (std::ranges::count(reader.inputs, part) == 0) return false;
        casts.push_back(reader.outputs[0]);
        return true;
      });
      for (const ValueId same : casts) graph.replace_uses(same, part);
    }
  }
}

/// Whether it can round its sums to the type of its factors itself.
bool writes_any_type(const Graph& graph, const Node& writer, DType dtype) {
  return is_any<kernels::Conv2dBackwardWeights, kernels::LinearBackwardWeights>(writer) &&
         graph.value(writer.inputs[0]).type.dtype == dtype;
}

/// The gradient becomes a copy in `dtype`, right behind it.
void cast_gradient(Graph& graph, model::Parameter& parameter, std::size_t writer, DType dtype) {
  model::Value& gradient = graph.value(parameter.gradient);
  gradient.role = model::Role::activation;
  const ValueId copy = graph.add_value(gradient.name, {dtype, gradient.type.shape}, model::Role::gradient);
  const Node& before = graph.nodes()[writer];
  Node node{.op = model::make_op(kernels::Cast{dtype}),
            .inputs = {parameter.gradient},
            .outputs = {copy},
            .layer = before.layer,
            .phase = before.phase};
  graph.insert_after(writer, std::move(node));
  parameter.gradient = copy;
}

}  // namespace

void autocast(Graph& graph, DType narrow) {
  if (narrow != DType::f32) Autocast(graph, narrow).run();
}

void copy_parameters(Graph& graph, DType narrow) {
  cast_before_splits(graph, narrow);
  std::map<ValueId, ValueId> replaced;
  std::erase_if(graph.nodes(), [&](const Node& node) {
    const auto* cast = node.op->as<kernels::Cast>();
    if (cast == nullptr || cast->to != narrow) return false;
    const auto read = std::ranges::find(graph.parameters(), node.inputs[0], &model::Parameter::value);
    if (read == graph.parameters().end()) return false;
    if (read->copy == model::no_value) {
      read->copy = node.outputs[0];
      graph.value(read->copy).role = model::Role::parameter_copy;
    } else {
      replaced.emplace(node.outputs[0], read->copy);
    }
    return true;
  });
  for (const auto& [cast, copy] : replaced) graph.replace_uses(cast, copy);
}

void set_gradient_dtype(Graph& graph, DType dtype) {
  if (dtype == DType::f32) return;
  for (model::Parameter& parameter : graph.parameters()) {
    if (parameter.gradient == model::no_value) continue;
    if (!graph.producer(parameter.gradient)) {
      graph.value(parameter.gradient).type.dtype = dtype;  // rows are added to it in this type
      continue;
    }
    const std::size_t writer = graph.producer(parameter.gradient).value();
    if (writes_any_type(graph, graph.nodes()[writer], dtype)) {
      graph.value(parameter.gradient).type.dtype = dtype;
    } else {
      cast_gradient(graph, parameter, writer, dtype);
    }
  }
}

}  // namespace lockstep::runtime
