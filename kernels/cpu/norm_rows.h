#pragma once

#include <algorithm>

#include "kernels/base/division.h"
#include "kernels/cpu/parallel.h"
#include "kernels/layer_norm.h"

namespace lockstep::kernels {

/// What the norms over rows share on the CPU.

inline NormRows rows_of(const TensorDesc& x) {
  const std::int64_t columns = x.shape[x.shape.rank() - 1];
  return {0, x.shape.elements() / columns, columns};
}

/// How sums over rows are cut, by the shape alone: enough chunks for a great team, and enough rows in each to
/// be worth the sums that it leaves.
class RowChunks {
 public:
  explicit RowChunks(const NormRows& all)
      : all_(all),
        size_(std::max<std::int64_t>(16, parts_of(all.end, 64))),
        count_(parts_of(all.end, size_)) {}

  std::int64_t count() const { return count_; }

  /// `body(chunk, its rows)` on the team.
  template <class Body>
  void for_each(const Body& body) const {
    parallel_ranges(count_, all_.end * all_.columns, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        body(chunk, all_.part(chunk * size_, std::min(all_.end, (chunk + 1) * size_)));
      }
    });
  }

  /// out[k] = the chunks' numbers `sums[k]`, `stride` apart, added in their order.
  void add(const float* sums, std::int64_t stride, float* out) const {
    const std::int64_t columns = all_.columns;
    parallel_ranges(columns, count_ * columns, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
      std::fill(out + begin, out + end, 0.0F);
      for (std::int64_t chunk = 0; chunk < count_; ++chunk) {
        const float* const of_chunk = sums + chunk * stride;
        for (std::int64_t k = begin; k < end; ++k) out[k] += of_chunk[k];
      }
    });
  }

 private:
  NormRows all_;
  std::int64_t size_, count_;
};

}  // namespace lockstep::kernels
