#pragma once

#include <math.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/simgpu/engine/device_calls.h"
#include "tests/simgpu/language/keywords.h"
#include "tests/simgpu/language/vectors.h"

/// The twins of instructions that have no name in CUDA C++: kernels/cuda/ptx.h tells what they do.
namespace simgpu {

template <class Element>
void multiply_tiles(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                    Site site = Site::here()) {
  constexpr bool is_half = std::is_same_v<Element, __half>;
  static_assert(is_half || std::is_same_v<Element, __nv_bfloat16>);
  WarpProduct product{std::to_array(a), std::to_array(b), std::to_array(sums)};
  warp_product({is_half ? "mma.m16n8k16.f16" : "mma.m16n8k16.bf16", site}, product, [](std::uint16_t bits) {
    Element element;
    std::memcpy(static_cast<void*>(&element), &bits, sizeof(bits));
    return static_cast<float>(element);
  });
  for (std::size_t i = 0; i < 4; ++i) sums[i] = product.sums[i];
}

template <bool transposes>
void load_tile(std::uint32_t (&words)[4], const uint4* tile, int row) {
  const int lane = lane_index();
  for (int matrix = 0; matrix < 4; ++matrix) {
    std::array<std::uint16_t, 2> pair{};
    for (int i = 0; i < 2; ++i) {
      const int across = lane % 4 * 2 + i;
      const int r = matrix % 2 * 8 + (transposes ? across : lane / 4);
      const int column = transposes ? lane / 4 : across;
      const uint4* const eight = tile + r * row + matrix / 2;
      // No memcpy: ThreadSanitizer may not see one that becomes a load.
      pair[static_cast<std::size_t>(i)] = reinterpret_cast<const std::uint16_t*>(eight)[column];
    }
    std::memcpy(&words[matrix], pair.data(), sizeof(pair));
  }
}

/// Until the wait there is nothing of it but NaN: a GPU may be that late. All accesses stand here, in the
/// kernel's own code, so that they are seen as the thread's where that code is instrumented.
template <class Word>
void begin_copy(Word* to, const Word* from, bool is_there, Site site = Site::here()) {
  static_assert(std::is_same_v<Word, uint4> || std::is_same_v<Word, float>);
  Word absent;
  std::memset(&absent, 0xff, sizeof(absent));
  *aligned_cast<Word>(to, site) = absent;
  keep_copy({to, aligned_cast<const Word>(from, site), sizeof(Word), is_there, site});
}

template <class Word>
void make_copy(const BegunCopy& copy) {
  *static_cast<Word*>(copy.to) = copy.is_there ? *static_cast<const Word*>(copy.from) : Word{};
}

inline void wait_for_copies() {
  for (BegunCopy copy; take_copy(copy);)
    copy.bytes == sizeof(uint4) ? make_copy<uint4>(copy) : make_copy<float>(copy);
}

inline float fast_exp2(float x) {
  const float y = exp2f(x);
  return y < std::numeric_limits<float>::min() ? 0.0f : y;
}

}  // namespace simgpu
