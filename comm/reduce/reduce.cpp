#include "comm/reduce/reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "kernels/base/half.h"

namespace lockstep::comm {
namespace {

int middle(RankRange range) {
  const auto left = std::bit_floor(static_cast<unsigned>(range.size() - 1));
  return range.first + static_cast<int>(left);
}

RankRange left_of(RankRange range) {
  return {range.first, middle(range)};
}
RankRange right_of(RankRange range) {
  return {middle(range), range.end};
}

/// Lists the leaves of `range` in order, each with the merges that follow it.
void list_merges(RankRange range, std::span<const RankRange>& parts, std::vector<std::uint8_t>& merges) {
  if (parts.empty() || parts.front().first != range.first)
    throw std::logic_error("ReductionTree: ranks are missing");
  if (parts.front() == range) {
    parts = parts.subspan(1);
    merges.push_back(0);
    return;
  }
  if (range.size() == 1) throw std::logic_error("ReductionTree: a part is no whole subtree");
  list_merges(left_of(range), parts, merges);
  list_merges(right_of(range), parts, merges);
  ++merges.back();
}

void collect_subtrees(RankRange range, std::span<const int> members, std::vector<RankRange>& subtrees) {
  const auto first = std::ranges::lower_bound(members, range.first);
  const auto held = std::ranges::lower_bound(members, range.end) - first;
  if (held == 0) return;
  if (held == range.size()) return subtrees.push_back(range);
  collect_subtrees(left_of(range), members, subtrees);
  collect_subtrees(right_of(range), members, subtrees);
}

std::vector<RankRange> single_ranks(int ranks) {
  std::vector<RankRange> parts;
  for (int rank = 0; rank < ranks; ++rank) parts.push_back({rank, rank + 1});
  return parts;
}

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

template <class Half>
void widen_all(const std::byte* halves, float* to, std::size_t count) {
  const auto* from = reinterpret_cast<const Half*>(halves);
  for (std::size_t i = 0; i < count; ++i) to[i] = widen(from[i]);
}

template <class Half>
void narrow_all(const float* from, std::byte* halves, std::size_t count) {
  auto* to = reinterpret_cast<Half*>(halves);
  for (std::size_t i = 0; i < count; ++i) narrow(from[i], to[i]);
}

/// Walks the leaves in order; neighbours merge as soon as both are there, so that few partial sums are kept.
template <class T>
class BlockSum {
 public:
  const T* operator()(const ReductionTree& tree, std::span<const ReduceInput> operands, std::size_t first,
                      std::size_t count) {
    depth_ = 0;
    for (std::size_t leaf = 0; leaf < operands.size(); ++leaf) {
      partial_[depth_] = load(operands[leaf], first, count);
      ++depth_;
      for (int merges = tree.merges_after(leaf); merges > 0; --merges) merge(count);
    }
    return partial_[0];
  }

 private:
  const T* load(const ReduceInput& operand, std::size_t first, std::size_t count) {
    const std::byte* const from = operand.values + first * size_of(operand.dtype);
    if constexpr (std::is_same_v<T, float>) {
      T* const widened = scratch_[depth_].data();
      if (operand.dtype == DType::bf16) return widen_all<BFloat16>(from, widened, count), widened;
      if (operand.dtype == DType::f16) return widen_all<Float16>(from, widened, count), widened;
    }
    return reinterpret_cast<const T*>(from);
  }

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
void store(const T* sum, DType dtype, std::byte* to, std::size_t count) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::bf16) return narrow_all<BFloat16>(sum, to, count);
    if (dtype == DType::f16) return narrow_all<Float16>(sum, to, count);
  }
  std::memmove(to, sum, count * sizeof(T));
}

template <class T>
void sum_blocks(DType dtype, const ReductionTree& tree, std::span<const ReduceInput> operands,
                std::span<std::byte* const> outputs, std::size_t count) {
  constexpr std::size_t block = block_bytes / sizeof(T);
  BlockSum<T> sum_block;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t size = std::min(block, count - first);
    const std::size_t begin = first * size_of(dtype);
    std::byte* const stored = outputs.front() + begin;
    store(sum_block(tree, operands, first, size), dtype, stored, size);
    for (std::byte* output : outputs.subspan(1)) std::memcpy(output + begin, stored, size * size_of(dtype));
  }
}

}  // namespace

ReductionTree::ReductionTree(int ranks) : ReductionTree(ranks, single_ranks(ranks)) {}

ReductionTree::ReductionTree(int ranks, std::span<const RankRange> parts) {
  list_merges({0, ranks}, parts, merges_);
  if (!parts.empty()) throw std::logic_error("ReductionTree: more parts than ranks");
}

std::vector<RankRange> whole_subtrees(int ranks, std::span<const int> members) {
  std::vector<RankRange> subtrees;
  collect_subtrees({0, ranks}, members, subtrees);
  return subtrees;
}

void reduce(DType dtype, const ReductionTree& tree, std::span<const ReduceInput> operands,
            std::span<std::byte* const> outputs, std::size_t count) {
  if (dtype == DType::f64) return sum_blocks<double>(dtype, tree, operands, outputs, count);
  if (dtype == DType::f32 || is_half(dtype)) return sum_blocks<float>(dtype, tree, operands, outputs, count);
  throw std::logic_error("reduce: floating-point numbers only");
}

}  // namespace lockstep::comm
