#include "kernels/cached_attention.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/define_op.h"

namespace lockstep::model {

using kernels::CacheAppend;
using kernels::CachedAttention;

using kernels::SourcePositions;

namespace {

Tensor cached(Tensor x, std::int64_t heads, const std::string& name) {
  Graph& graph = x.graph();
  const Decoding& decoding = graph.decoding.value();
  const Tensor cache = apply<CacheAppend>(graph, {.heads = heads, .capacity = decoding.capacity}, nullptr,
                                          {x, Tensor(graph, decoding.positions)}, name);
  graph.keep_as_cache(cache.id());
  return cache;
}

Tensor cached_source(Tensor x, Tensor positions, std::int64_t heads, const std::string& name) {
  return once_for_source(apply<CacheAppend>(x.graph(), {.heads = heads, .capacity = x.shape()[1]}, nullptr,
                                            {x, positions}, name));
}

}  // namespace

Tensor once_for_source(Tensor x) {
  if (x.graph().decodes()) x.graph().keep_from_source(x.id());
  return x;
}

Tensor cached_attention(Tensor q, Tensor k, Tensor v, const std::string& name,
                        CachedAttentionOptions options) {
  Graph& graph = q.graph();
  if (!graph.decodes()) throw UsageError(fmt::format("layer '{}': the graph decodes nothing", name));
  const Tensor keys = cached(k, options.heads, name);
  const Tensor values = cached(v, options.heads, name);
  std::vector<Tensor> inputs{q, Tensor(graph, graph.decoding->positions), keys, values};
  if (graph.decoding->cache_rows != no_value) inputs.emplace_back(graph, graph.decoding->cache_rows);
  return apply<CachedAttention>(graph, {.scale = options.scale}, nullptr, inputs, name);
}

Tensor cached_cross_attention(Tensor q, Tensor k, Tensor v, Tensor tokens, const std::string& name,
                              CachedAttentionOptions options) {
  Graph& graph = q.graph();
  if (!graph.decodes()) throw UsageError(fmt::format("layer '{}': the graph decodes nothing", name));
  const auto source = apply_all<SourcePositions>(graph, {.queries = q.shape()[1]}, nullptr, {tokens}, name);
  const Tensor keys = cached_source(k, source[SourcePositions::positions], options.heads, name);
  const Tensor values = cached_source(v, source[SourcePositions::positions], options.heads, name);
  return apply<CachedAttention>(graph, {.scale = options.scale}, nullptr,
                                {q, source[SourcePositions::last], keys, values}, name);
}

}  // namespace lockstep::model
