#pragma once

#include "kernels/cuda/portability.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/loss_rows.h"

/// The fused classifier's rows of half types: a row of logits, which memory gives once, stays in the block's
/// shared memory until its gradient is written over it.
namespace lockstep::kernels {

/// Rows of logits lie so far apart that each begins at 16 bytes: what a thread takes at once, and what
/// products want of their factors.
inline constexpr int kept_lanes = 8;
inline constexpr int kept_block = 512;

/// Of a GPU's block, of which a launch may ask for so much (CUDA C++ Programming Guide, table of technical
/// specifications).
constexpr std::int64_t most_shared_bytes(int capability) {
  constexpr std::int64_t kib = 1024;
  if (capability >= 120) return 99 * kib;
  if (capability >= 90) return 227 * kib;
  if (capability == 80 || capability == 87) return 163 * kib;
  return capability >= 80 ? 99 * kib : 64 * kib;
}

/// For a row, beside what a block's sums take.
constexpr std::int64_t most_kept_bytes(int capability) {
  constexpr std::int64_t for_sums = 768;
  return most_shared_bytes(capability) - for_sums;
}

// GPT-2's rows, its vocabulary rounded up to `ClassifierLoss::gpu_vocabulary`.
static_assert(2 * 50304 <= most_kept_bytes(86) && 2 * 50304 > most_kept_bytes(75));

/// The greatest so far, the first of equals.
struct Greatest {
  float value;
  int at;
};
__device__ inline Greatest exchange(const Greatest& greatest, int lane_mask) {
  return {__shfl_xor_sync(0xffffffffU, greatest.value, lane_mask),
          __shfl_xor_sync(0xffffffffU, greatest.at, lane_mask)};
}
__device__ inline Greatest greater_of(const Greatest& a, const Greatest& b) {
  if (a.value == b.value) return {a.value, a.at < b.at ? a.at : b.at};
  return a.value > b.value ? a : b;
}

/// A row of `columns` in shared memory, of which each of the block's threads has the same groups of lanes at
/// every turn: it needs to wait for no other.
template <class Half>
struct KeptRow {
  using Lanes = Pack<Half, kept_lanes>;
  Half* kept;
  std::int64_t columns, stride;

  template <class Visit>
  __device__ void visit_groups(Visit visit) const {
    for (std::int64_t k = static_cast<std::int64_t>(threadIdx.x) * kept_lanes; k < stride;
         k += kept_block * kept_lanes)
      visit(k);
  }

  /// `visit(k, x)` for the thread's elements.
  template <class Visit>
  __device__ void visit_elements(std::int64_t k, Visit visit) const {
    const auto lanes = *aligned_cast<const Lanes>(kept + k);
    for (int lane = 0; lane < kept_lanes; ++lane) {
      if (k + lane < columns) visit(lane, widen(lanes.at[lane]));
    }
  }

  __device__ void clear(Half* row) const {
    visit_groups([&](std::int64_t k) { store(row + k, Floats<kept_lanes>::all(0)); });
  }
  __device__ void read(const Half* from) const {
    visit_groups(
        [&](std::int64_t k) { *aligned_cast<Lanes>(kept + k) = *aligned_cast<const Lanes>(from + k); });
  }
};

/// As CrossEntropy::run, by all threads of the block; `gradient` may be where the row came from.
template <class Half>
__device__ RowLoss loss_of_kept_row(const CrossEntropy& loss_of, const KeptRow<Half>& row, float hit,
                                    std::int64_t target, Half* gradient, float scale) {
  Greatest greatest{-INFINITY, static_cast<int>(row.columns)};
  float above = 0;   // sum of x - hit
  float before = 0;  // how many are greater; of equal ones the first is
  row.visit_groups([&](std::int64_t k) {
    row.visit_elements(k, [&](int lane, float x) {
      if (x > greatest.value) greatest = {x, static_cast<int>(k) + lane};
      above += x - hit;
      before += x > hit || (x == hit && k + lane < target) ? 1 : 0;
    });
  });
  greatest = reduce<kept_block>(greatest, greater_of);
  float total = 0;
  row.visit_groups([&](std::int64_t k) {
    row.visit_elements(k, [&](int, float x) { total += expf(x - greatest.value); });
  });
  total = sum<kept_block>(total);
  // An infinity as the greatest leaves no trace in the total.
  const float poison = isfinite(greatest.value) && isfinite(total) ? 0 : NAN;
  const auto classes = static_cast<float>(row.columns);
  const float hard = logf(total) + (greatest.value - hit);
  const float soft = loss_of.smoothing > 0 ? hard - sum<kept_block>(above) / classes : 0;
  if (gradient != nullptr) {
    const float inverse = scale / total;
    const float spread = scale * loss_of.smoothing / classes - poison;
    const float at_target = scale * loss_of.certain;
    row.visit_groups([&](std::int64_t k) {
      auto slopes = Floats<kept_lanes>::all(0);
      row.visit_elements(k, [&](int lane, float x) {
        slopes.at[lane] = expf(x - greatest.value) * inverse - spread - (k + lane == target ? at_target : 0);
      });
      store(gradient + k, slopes);
    });
  }
  const bool in_top5 = sum<kept_block>(before) < 5 && poison == 0;
  const bool is_greatest = greatest.at == target && poison == 0;
  return {loss_of.certain * hard + loss_of.smoothing * soft + poison, is_greatest ? 1.0F : 0.0F,
          in_top5 ? 1.0F : 0.0F, 1};
}

}  // namespace lockstep::kernels
