#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>

#include "kernels/base/fast_division.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/pointwise_steps.h"

/// Chains over packs of 16 bytes, each a run of the output.
namespace lockstep::kernels {

/// A walk over packs of the output, which lies in its order without gaps: axis 0 is the innermost. Strides of
/// inputs are in packs; of one that repeats an element along axis 0 (a splat) in elements.
template <int inputs>
struct PackWalk {
  std::uint32_t packs;
  std::uint32_t axes;
  std::uint32_t loads;   ///< a bit for each input that is there
  std::uint32_t splats;  ///< and for each that is one
  FastDivision extents[PointwiseWalk::most_axes];
  std::uint32_t strides[inputs][PointwiseWalk::most_axes];

  __device__ bool loaded(int input) const { return (loads >> input & 1) != 0; }
  __device__ bool is_splat(int input) const { return (splats >> input & 1) != 0; }
};

template <class Element, int inputs>
struct PackInputs {
  const Element* at[inputs];
};

/// Inputs of pack `item`, all of them loaded before one is waited for, and before a step's result is written:
/// output 0 may lie where an input does.
template <class Element, int inputs>
__device__ void load_packs(const PackWalk<inputs>& walk, const PackInputs<Element, inputs>& from,
                           std::uint32_t item, uint4 (&packs)[inputs]) {
  using Bits = std::conditional_t<sizeof(Element) == 2, std::uint16_t, std::uint32_t>;
  constexpr std::uint32_t all_lanes = sizeof(Element) == 2 ? 0x10001 : 1;
  std::uint32_t offsets[inputs] = {};
  std::uint32_t rest = item;
  LOCKSTEP_UNROLL
  for (std::uint32_t axis = 0; axis < PointwiseWalk::most_axes; ++axis) {
    const bool last = axis + 1 >= walk.axes;
    const std::uint32_t outer = last ? 0 : walk.extents[axis].quotient(rest);
    const std::uint32_t index = rest - outer * walk.extents[axis].divisor();
    LOCKSTEP_UNROLL
    for (int i = 0; i < inputs; ++i) offsets[i] += index * walk.strides[i][axis];
    if (last) break;
    rest = outer;
  }
  LOCKSTEP_UNROLL
  for (int i = 0; i < inputs; ++i) {
    packs[i] = {};
    if (!walk.loaded(i)) continue;
    if (walk.is_splat(i)) {
      packs[i].x = aligned_cast<const Bits>(from.at[i])[offsets[i]];
    } else {
      packs[i] = aligned_cast<const uint4>(from.at[i])[offsets[i]];
    }
  }
  if (walk.splats == 0) return;
  LOCKSTEP_UNROLL
  for (int i = 0; i < inputs; ++i) {
    const std::uint32_t word = packs[i].x * all_lanes;
    if (walk.is_splat(i)) packs[i] = {word, word, word, word};
  }
}

template <class Element>
__device__ Floats<pack_lanes<Element>> widen_pack(const uint4& words) {
  constexpr int lanes = pack_lanes<Element>;
  const auto pack = std::bit_cast<Pack<Element, lanes>>(words);
  Floats<lanes> values;
  LOCKSTEP_UNROLL
  for (int lane = 0; lane < lanes; ++lane) values.at[lane] = widen(pack.at[lane]);
  return values;
}

/// The strides that PackWalk wants of one input.
struct PackStrides {
  bool splat;
  std::uint32_t of[PointwiseWalk::most_axes];
};

/// Starts a chain's kernel.
using ChainLaunch = std::function<void(const Addresses&, cudaStream_t)>;

/// A walk as packs of `lanes` elements may take it.
class Packs {
 public:
  /// Nothing where packs cross the ends of runs or have no number of 31 bits, or an input has a stride.
  static std::optional<Packs> of(const PointwiseWalk& walk, std::size_t inputs, std::int64_t lanes);

  /// Elements that whole packs cover; in a single run some may be left.
  std::int64_t elements() const { return std::int64_t{packs_} * lanes_; }
  std::uint32_t count() const { return packs_; }

  /// With `wanted[i]` as input i; that is none where negative.
  template <int inputs>
  PackWalk<inputs> walk(std::span<const int> wanted) const {
    PackWalk<inputs> to{};
    to.packs = packs_;
    to.axes = static_cast<std::uint32_t>(axes_);
    std::copy_n(extents_, axes_, to.extents);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] < 0) continue;
      const PackStrides& strides = strides_[wanted[i]];
      to.loads |= 1U << i;
      if (strides.splat) to.splats |= 1U << i;
      std::copy_n(strides.of, axes_, to.strides[i]);
    }
    return to;
  }

 private:
  std::int64_t lanes_ = 1;
  std::uint32_t packs_ = 0;
  std::size_t axes_ = 0;
  FastDivision extents_[PointwiseWalk::most_axes];
  PackStrides strides_[Pointwise::most_inputs]{};
};

/// A program of at most two steps.
ChainLaunch short_chain(const KernelIo& io, const Pointwise& op, const Packs& packs);
/// Nothing where a step reads a result that is too old to be in registers.
ChainLaunch long_chain(const KernelIo& io, const Pointwise& op, const Packs& packs);

}  // namespace lockstep::kernels
