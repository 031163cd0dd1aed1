#include "comm/host/tree_sum.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

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

/// Walks the leaves in order; neighbours merge as soon as both are there, so that few partial sums are kept.
template <class T>
class BlockSum {
 public:
  const T* operator()(const SumTree& tree, std::span<const T* const> inputs, std::size_t offset,
                      std::size_t count) {
    depth_ = 0;
    for (std::size_t leaf = 0; leaf < inputs.size(); ++leaf) {
      partial_[depth_++] = inputs[leaf] + offset;
      for (int merges = tree.merges_after(leaf); merges > 0; --merges) merge(count);
    }
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
void sum_blocks(const SumTree& tree, std::span<const T* const> inputs, std::span<T* const> outputs,
                std::size_t count) {
  constexpr std::size_t block = block_bytes / sizeof(T);
  BlockSum<T> sum_block;
  for (std::size_t offset = 0; offset < count; offset += block) {
    const std::size_t size = std::min(block, count - offset);
    const T* sum = sum_block(tree, inputs, offset, size);
    for (T* output : outputs) std::memmove(output + offset, sum, size * sizeof(T));
  }
}

}  // namespace

void tree_sum(DType dtype, const SumTree& tree, std::span<const std::byte* const> inputs,
              std::span<std::byte* const> outputs, std::size_t bytes) {
  const auto sum = [&]<class T>(T) {
    const auto* from = reinterpret_cast<const T* const*>(inputs.data());
    auto* to = reinterpret_cast<T* const*>(outputs.data());
    sum_blocks<T>(tree, {from, inputs.size()}, {to, outputs.size()}, bytes / sizeof(T));
  };
  if (dtype == DType::f32) return sum(float{});
  if (dtype == DType::f64) return sum(double{});
  throw std::invalid_argument("tree_sum: f32 or f64 only");
}

}  // namespace lockstep::comm
