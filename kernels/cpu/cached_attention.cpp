#include "kernels/cached_attention.h"

#include <algorithm>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const CacheAppend& op, const KernelIo& io) {
  const Shape& x = io.inputs[CacheAppend::x].shape;
  const std::int64_t tokens = x[1];
  const std::int64_t head_size = x[2] / op.heads;
  return cpu_kernel(io, [=, rows = x[0]](const Addresses& a) {
    const float* from = a.in(CacheAppend::x);
    const auto* const positions = a.in<std::int64_t>(CacheAppend::positions);
    float* const cache = a.out(CacheAppend::cache);
    for (std::int64_t token = 0; token < rows * tokens; ++token) {
      const std::int64_t position = positions[token];
      for (std::int64_t head = 0; head < op.heads; ++head, from += head_size) {
        if (position < 0 || position >= op.capacity) continue;
        const std::int64_t at = (token / tokens * op.heads + head) * op.capacity + position;
        std::copy_n(from, head_size, cache + at * head_size);
      }
    }
  });
}

KernelPtr prepare(Cpu, const CachedAttention& op, const KernelIo& io) {
  using Op = CachedAttention;
  const Shape& q = io.inputs[Op::q].shape;
  const Shape& cache = io.inputs[Op::keys].shape;
  const CachedQueries all{.begin = 0,
                          .end = q[0] * cache[1] * q[1],
                          .tokens = q[1],
                          .heads = cache[1],
                          .head_size = cache[3],
                          .capacity = cache[2]};
  const std::int64_t in_row = all.heads * all.tokens;
  return cpu_kernel(io, [=, kernel = simd::best<Op>()](const Addresses& a) {
    const auto* const last = a.in<std::int64_t>(Op::last);
    std::int64_t entries = 0;
    for (std::int64_t token = 0; token < all.end / all.heads; ++token) {
      entries += std::clamp<std::int64_t>(last[token] + 1, 0, all.capacity);
    }
    const std::int64_t work = entries * all.heads * all.head_size / 2;
    // A head of a row is one thread's, unless there are few: its keys stay in that thread's cache.
    const std::int64_t align = all.end / all.tokens >= 2 * omp_get_max_threads() ? all.tokens : 1;
    parallel_ranges(all.end, in_row > 0 ? work : 0, align, [&](std::int64_t begin, std::int64_t end) {
      CachedQueries part = all;
      part.begin = begin;
      part.end = end;
      kernel(op, part, a.in(Op::q), last, a.in(Op::keys), a.in(Op::values), a.in<std::int64_t>(Op::rows),
             a.out(Op::y));
    });
  });
}

KernelPtr prepare(Cpu, const SourcePositions& op, const KernelIo& io) {
  using Op = SourcePositions;
  const Shape& tokens = io.inputs[Op::tokens].shape;
  return cpu_kernel(io, [op, rows = tokens[0], length = tokens[1]](const Addresses& a) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto* const of_row = a.in<std::int64_t>(Op::tokens) + row * length;
      auto* const positions = a.out<std::int64_t>(Op::positions) + row * length;
      std::int64_t last = -1;
      for (std::int64_t at = 0; at < length; ++at) {
        positions[at] = of_row[at] < 0 ? -1 : at;
        last = std::max(last, positions[at]);
      }
      std::fill_n(a.out<std::int64_t>(Op::last) + row * op.queries, op.queries, last);
    }
  });
}

}  // namespace lockstep::kernels
