#pragma once

#include <math.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/simgpu/engine/device_calls.h"
#include "tests/simgpu/language/keywords.h"

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
      std::memcpy(
          &pair[static_cast<std::size_t>(i)],
          reinterpret_cast<const char*>(eight) + sizeof(std::uint16_t) * static_cast<std::size_t>(column),
          sizeof(std::uint16_t));
    }
    std::memcpy(&words[matrix], pair.data(), sizeof(pair));
  }
}

/// Done at once, though a GPU takes its time until the wait.
template <class Word>
void begin_copy(Word* to, const Word* from, bool is_there) {
  *to = is_there ? *from : Word{};
}
inline void wait_for_copies() {}

inline float fast_exp2(float x) {
  return exp2f(x);
}

}  // namespace simgpu
