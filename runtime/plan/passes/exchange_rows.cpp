#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/embedding.h"
#include "kernels/pointwise.h"
#include "kernels/row_list.h"
#include "model/spec_op.h"
#include "runtime/plan/bucket.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Node;
using model::ValueId;

/// A gradient taken apart into its summands. Nodes go by their ids, which stay when others are removed.
struct Summands {
  std::vector<int> embeddings;  ///< backward nodes of the embeddings, in the order of the graph
  std::vector<int> sums;        ///< nodes that add one or two sums with such a part
  ValueId rest = model::no_value;
  std::int64_t tokens = 0;
};

bool is_sum(const Node& node) {
  const auto* const op = node.op->as<kernels::Pointwise>();
  return op != nullptr && node.phase == model::Phase::backward && node.inputs.size() == 2 &&
         op->is(kernels::PointwiseFunction::add);
}

/// Takes the part of embeddings out of `gradient`, which only `readers` nodes may read. Gives what is left.
ValueId take_apart(const Graph& graph, ValueId gradient, std::size_t readers, Summands& found) {
  const auto writer = graph.producer(gradient);
  if (!writer || graph.uses(gradient) != readers) return gradient;
  const Node& node = graph.nodes()[*writer];
  if (node.op->as<kernels::EmbeddingBackward>() != nullptr) {
    found.embeddings.push_back(node.id);
    found.tokens += graph.value(node.inputs[kernels::EmbeddingBackward::tokens]).type.shape.elements();
    const bool adds = node.inputs.size() > kernels::EmbeddingBackward::sum;  // in a graph that is fused
    return adds ? take_apart(graph, node.inputs[kernels::EmbeddingBackward::sum], 1, found) : model::no_value;
  }
  if (!is_sum(node)) return gradient;
  const Summands before = found;
  const ValueId left = take_apart(graph, node.inputs[0], 1, found);
  const ValueId right = take_apart(graph, node.inputs[1], 1, found);
  if (left != model::no_value && right != model::no_value) {
    found = before;  // it would take a new sum of what is left of both
    return gradient;
  }
  found.sums.push_back(node.id);
  return left != model::no_value ? left : right;
}

bool is_first_read_by_embedding(const Graph& graph, ValueId weight) {
  const auto reader = std::ranges::find_if(graph.nodes(), [&](const Node& node) {
    return std::ranges::find(node.inputs, weight) != node.inputs.end();
  });
  return reader != graph.nodes().end() && reader->op->as<kernels::Embedding>() != nullptr;
}

/// None for a parameter that is exchanged as it is.
std::optional<Summands> summands_of(const Graph& graph, const model::Parameter& parameter) {
  if (parameter.gradient == model::no_value || !is_first_read_by_embedding(graph, parameter.value)) return {};
  Summands found;
  found.rest = take_apart(graph, parameter.gradient, 0, found);
  const bool fits = !found.embeddings.empty() && found.rest != parameter.gradient &&
                    found.embeddings.size() <= kernels::EmbeddingRows::most_pairs;
  return fits ? std::optional(std::move(found)) : std::nullopt;
}

/// Room for so many rows; 0: the gradient is exchanged as it is.
std::int64_t capacity_of(const Graph& graph, std::size_t index, const Summands& summands,
                         const RowsOptions& options) {
  if (options.arena != nullptr) {
    const auto slice = std::ranges::find(options.arena->rows, index, &RowsSlice::parameter);
    return slice == options.arena->rows.end() ? 0 : slice->list.capacity;
  }
  const std::int64_t vocab = graph.value(graph.parameters()[index].value).type.shape[0];
  const bool are_few = summands.tokens * options.ranks < (vocab + 1) / 2;
  const bool as_rows =
      options.way == EmbeddingExchange::rows || (options.way == EmbeddingExchange::automatic && are_few);
  return as_rows ? std::min(summands.tokens, vocab) : 0;
}

std::size_t position_of(const Graph& graph, int node_id) {
  const auto node = std::ranges::find(graph.nodes(), node_id, &Node::id);
  return static_cast<std::size_t>(node - graph.nodes().begin());
}

/// At the place of the last of the backward nodes that it stands for.
void add_rows_node(Graph& graph, model::Parameter& parameter, const Summands& summands, std::int64_t capacity,
                   DType dtype) {
  const model::Value weight = graph.value(parameter.value);
  Node node{.op = model::make_op(
                kernels::EmbeddingRows{.vocab = weight.type.shape[0], .capacity = capacity, .dtype = dtype}),
            .inputs = {},
            .outputs = {},
            .layer = {},
            .phase = model::Phase::backward};
  std::size_t last = 0;
  for (const int id : summands.embeddings) {
    const std::size_t at = position_of(graph, id);
    const Node& backward = graph.nodes()[at];
    for (const std::size_t input : {kernels::EmbeddingBackward::dy, kernels::EmbeddingBackward::tokens})
      node.inputs.push_back(backward.inputs[input]);
    last = std::max(last, at);
  }
  node.layer = graph.nodes()[last].layer;
  const model::Types types = node.op->infer(graph.types(node.inputs));
  parameter.rows = graph.add_value("rows of " + weight.name, types.front(), model::Role::rows);
  node.outputs = {parameter.rows};
  graph.insert_after(last, std::move(node));
}

void split_gradient(Graph& graph, std::size_t index, const Summands& summands, std::int64_t capacity,
                    DType dtype) {
  model::Parameter& parameter = graph.parameters()[index];
  add_rows_node(graph, parameter, summands, capacity, dtype);
  std::erase_if(graph.nodes(), [&](const Node& node) {
    return std::ranges::count(summands.embeddings, node.id) + std::ranges::count(summands.sums, node.id) > 0;
  });
  if (summands.rest == model::no_value) return;  // the value of the gradient stays, without a writer
  graph.value(parameter.gradient).role = model::Role::activation;
  set_gradient(graph, parameter, summands.rest);
}

}  // namespace

void exchange_rows(Graph& graph, const RowsOptions& options) {
  if (options.way == EmbeddingExchange::dense) return;
  const auto has_dense_gradient = [&](const model::Parameter& parameter) {
    return parameter.gradient != model::no_value && graph.producer(parameter.gradient);
  };
  for (std::size_t index = 0; index < graph.parameters().size(); ++index) {
    const auto summands = summands_of(graph, graph.parameters()[index]);
    if (!summands) continue;
    // The control block travels with a bucket of gradients.
    const bool is_the_last = summands->rest == model::no_value &&
                             std::ranges::count_if(graph.parameters(), has_dense_gradient) == 1;
    const std::int64_t capacity = is_the_last ? 0 : capacity_of(graph, index, *summands, options);
    if (capacity > 0) split_gradient(graph, index, *summands, capacity, options.dtype);
  }
}

}  // namespace lockstep::runtime
