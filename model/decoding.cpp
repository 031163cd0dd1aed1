#include <algorithm>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/base/error.h"
#include "kernels/cached_attention.h"
#include "kernels/cast.h"
#include "kernels/embedding.h"
#include "kernels/external_op.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/pointwise.h"
#include "kernels/rms_norm.h"
#include "kernels/split.h"
#include "kernels/view.h"
#include "model/forward.h"

namespace lockstep::model {
namespace {

/// Sequences are (N, T, ...) or (T, N, ...): no op below moves tokens to a later dimension.
constexpr std::size_t of_tokens = 2;

bool has_same_tokens(const Shape& a, const Shape& b) {
  return a.rank() >= of_tokens && b.rank() >= of_tokens &&
         std::equal(a.begin(), a.begin() + of_tokens, b.begin());
}

bool leaves_tokens(std::int64_t dim, const Shape& shape) {
  return kernels::axis_of(dim, shape) >= of_tokens;
}

bool leaves_tokens(const kernels::Permute& op) {
  for (std::size_t i = of_tokens; i < op.axes.size(); ++i) {
    if (op.axes[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

template <class... Specs>
bool is_any_of(const Op& op) {
  return (... || (op.as<Specs>() != nullptr));
}

/// Whether what `node` gives for a token follows from its inputs for that token and from caches. What works
/// along the last dimension does: were tokens there, its parameters would not fit those of the training.
bool keeps_positions(const Graph& graph, const Node& node) {
  const Op& op = *node.op;
  const Shape& first = graph.value(node.inputs.front()).type.shape;
  if (is_any_of<kernels::Linear, kernels::Embedding, kernels::LayerNorm, kernels::RmsNorm, kernels::Pointwise,
                kernels::Cast, kernels::Expand, kernels::CacheAppend, kernels::CachedAttention>(op))
    return true;
  if (const auto* cut = op.as<kernels::Split>()) return leaves_tokens(cut->dim, first);
  if (const auto* joined = op.as<kernels::Concat>()) return leaves_tokens(joined->dim, first);
  if (const auto* turned = op.as<kernels::Permute>()) return leaves_tokens(*turned);
  if (const auto* view = op.as<kernels::Reshape>()) return has_same_tokens(first, view->shape);
  const auto* external = op.as<kernels::ExternalOp>();
  return external != nullptr && external->keeps_positions();
}

/// Of nodes that work on new tokens, those that would need earlier ones, too, which nothing keeps for them.
class MixedTokens {
 public:
  MixedTokens(const Graph& graph, std::int64_t source_length)
      : graph_(graph), source_length_(source_length), of_tokens_(graph.value_count()) {
    mark(graph.find(Role::input));
    mark(graph.decoding.value().positions);
    for (const Node& node : graph.nodes()) visit(node);
  }

  void require_none(const std::string& model) const {
    if (ops_.empty()) return;
    throw UsageError(fmt::format(
        "model '{}' cannot write texts: {} {} would need earlier tokens, of which nothing is kept. Take "
        "gpt2, or a model in which tokens meet in causal `attention` alone{}",
        model, ops_.size() == 1 ? "its op" : "its ops", fmt::join(ops_, ", "),
        has_external_
            ? "; an op of a plugin that gives each token by itself says so by ExternalRules::keeps_positions"
            : ""));
  }

 private:
  void mark(ValueId id) { of_tokens_[static_cast<std::size_t>(id)] = true; }

  /// Of a row the source, which is whole at all times, before the new tokens.
  bool parts_source(const Node& node) const {
    const auto* cut = node.op->as<kernels::Split>();
    return source_length_ > 0 && cut != nullptr && cut->sizes.size() == 2 &&
           cut->sizes.front() == source_length_ && graph_.value(node.inputs.front()).role == Role::input;
  }

  void visit(const Node& node) {
    const bool reads = std::ranges::any_of(
        node.inputs, [&](ValueId id) { return of_tokens_[static_cast<std::size_t>(id)]; });
    if (!reads) return;
    if (parts_source(node)) return mark(node.outputs.back());
    std::ranges::for_each(node.outputs, [&](ValueId id) { mark(id); });
    if (keeps_positions(graph_, node)) return;
    has_external_ = has_external_ || node.op->as<kernels::ExternalOp>() != nullptr;
    const std::string name = fmt::format("'{}'", node.op->name());
    if (std::ranges::find(ops_, name) == ops_.end()) ops_.push_back(name);
  }

  const Graph& graph_;
  std::int64_t source_length_;
  std::vector<bool> of_tokens_;  ///< by value
  std::vector<std::string> ops_;
  bool has_external_ = false;
};

}  // namespace

Graph build_decoding(const Model& model, const InputSpec& input, std::int64_t batch_size, std::int64_t tokens,
                     std::int64_t capacity, bool branches) {
  if (input.shape.rank() == 0) {
    throw UsageError(fmt::format("model '{}' takes no sequences: it cannot extend one", model.name));
  }
  std::vector<std::int64_t> extents(input.shape.begin(), input.shape.end());
  extents.front() = input.source_length + tokens;
  Graph graph;
  const ValueId x =
      graph.add_value("input", {input.dtype, with_batch(batch_size, Shape(std::move(extents)))}, Role::input);
  const ValueId positions = graph.add_value("positions", {DType::i64, {batch_size, tokens}}, Role::positions);
  graph.decoding = Decoding{.capacity = capacity, .positions = positions};
  if (branches) {
    graph.decoding->cache_rows =
        graph.add_value("cache rows", {DType::i64, {batch_size, capacity}}, Role::cache_rows);
  }
  const Tensor output = run_forward(model, Tensor(graph, x));
  const Shape& shape = output.shape();
  if (shape.rank() != 3 || shape[0] != batch_size || shape[1] != tokens) {
    throw UsageError(
        fmt::format("model '{}' gives {}: it has no output for each token, which could be the next",
                    model.name, shape.str()));
  }
  MixedTokens(graph, input.source_length).require_none(model.name);
  require_addressable(model, graph);
  graph.output = output.id();
  return graph;
}

}  // namespace lockstep::model
