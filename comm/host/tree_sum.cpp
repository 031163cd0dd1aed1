#include "comm/host/tree_sum.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep::comm {
namespace {

// Partial sums of one block stay in the first-level cache.
constexpr std::size_t block_bytes = 4096;

template <class T>
using Add = void (*)(const T* left, const T* right, T* sum, std::size_t count);

template <class T>
[[gnu::always_inline]] inline void add(const T* left, const T* right, T* sum, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) sum[i] = left[i] + right[i];
}

template <class T>
void add_baseline(const T* left, const T* right, T* sum, std::size_t count) {
  add(left, right, sum, count);
}

template <class T>
[[gnu::target("avx2")]] void add_avx2(const T* left, const T* right, T* sum, std::size_t count) {
  add(left, right, sum, count);
}

template <class T>
[[gnu::target("avx512f,prefer-vector-width=512")]] void add_avx512(const T* left, const T* right, T* sum,
                                                                   std::size_t count) {
  add(left, right, sum, count);
}

template <class T>
Add<T> best_add() {
  if (__builtin_cpu_supports("avx512f")) return add_avx512<T>;
  if (__builtin_cpu_supports("avx2")) return add_avx2<T>;
  return add_baseline<T>;
}

/// Walks the leaves like a binary counter: equal-sized neighbours merge as soon as both are there.
template <class T>
class BlockSum {
 public:
  const T* operator()(std::span<const T* const> inputs, std::size_t offset, std::size_t count) {
    depth_ = 0;
    for (std::size_t leaf = 0; leaf < inputs.size(); ++leaf) {
      partial_[depth_++] = inputs[leaf] + offset;
      for (std::size_t filled = leaf + 1; filled % 2 == 0; filled /= 2) merge(count);
    }
    while (depth_ > 1) merge(count);
    return partial_[0];
  }

 private:
  void merge(std::size_t count) {
    static const Add<T> add_best = best_add<T>();
    --depth_;
    T* sum = scratch_[depth_ - 1].data();
    add_best(partial_[depth_ - 1], partial_[depth_], sum, count);
    partial_[depth_ - 1] = sum;
  }

  static constexpr std::size_t max_depth = 17;
  alignas(64) std::array<std::array<T, block_bytes / sizeof(T)>, max_depth> scratch_;
  std::array<const T*, max_depth> partial_;
  std::size_t depth_ = 0;
};

template <class T>
void sum_blocks(std::span<const T* const> inputs, std::span<T* const> outputs, std::size_t count) {
  constexpr std::size_t block = block_bytes / sizeof(T);
  BlockSum<T> sum_block;
  for (std::size_t offset = 0; offset < count; offset += block) {
    const std::size_t size = std::min(block, count - offset);
    const T* sum = sum_block(inputs, offset, size);
    for (T* output : outputs) std::memmove(output + offset, sum, size * sizeof(T));
  }
}

}  // namespace

void tree_sum(std::span<const float* const> inputs, std::span<float* const> outputs, std::size_t count) {
  sum_blocks(inputs, outputs, count);
}

void tree_sum(std::span<const double* const> inputs, std::span<double* const> outputs, std::size_t count) {
  sum_blocks(inputs, outputs, count);
}

}  // namespace lockstep::comm
