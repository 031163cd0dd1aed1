#include "kernels/cached_attention.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/define_op.h"

namespace lockstep::model {

using kernels::CacheAppend;
using kernels::CachedAttention;

namespace {

Tensor cached(Tensor x, std::int64_t heads, const std::string& name) {
  Graph& graph = x.graph();
  const Decoding& decoding = graph.decoding.value();
  const Tensor cache = apply<CacheAppend>(graph, {.heads = heads, .capacity = decoding.capacity}, nullptr,
                                          {x.id(), decoding.positions}, name);
  graph.keep_as_cache(cache.id());
  return cache;
}

}  // namespace

Tensor cached_attention(Tensor q, Tensor k, Tensor v, const std::string& name,
                        CachedAttentionOptions options) {
  Graph& graph = q.graph();
  if (!graph.decoding) throw UsageError(fmt::format("layer '{}': the graph decodes nothing", name));
  const Tensor keys = cached(k, options.heads, name);
  const Tensor values = cached(v, options.heads, name);
  return apply<CachedAttention>(graph, {.scale = options.scale}, nullptr,
                                {q.id(), graph.decoding->positions, keys.id(), values.id()}, name);
}

}  // namespace lockstep::model
