#pragma once

#include "kernels/cpu/simd/lanes.h"
#include "kernels/tile_product.h"

#if defined(__AMX_BF16__)
#include <immintrin.h>
#endif

/// Products of tiles (kernels/tile_product.h), square by square, inside kernels that load the registers'
/// configuration once.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

#if defined(__AMX_BF16__)

/// All eight registers are whole tiles; as the processor wants to be told (LDTILECFG).
struct alignas(64) Registers {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr Registers registers;

/// For a call: the library finds the registers as it left them, released.
class Configuration {
 public:
  [[gnu::always_inline]] inline Configuration() { _tile_loadconfig(&registers); }
  [[gnu::always_inline]] inline ~Configuration() { _tile_release(); }
  Configuration(const Configuration&) = delete;
  Configuration& operator=(const Configuration&) = delete;
};

/// The compiler does not know that tiles are loaded from memory.
[[gnu::always_inline]] inline void finish_stores() {
  asm volatile("" ::: "memory");
}

/// Two rows by two columns of tiles. `a_step(k)`, `b_step(k)`: bytes from a, and from b, to their k-th tiles.
template <class Step, class OtherStep>
[[gnu::always_inline]] inline void square(const TileProduct& p, const char* a, const char* b, float* c,
                                          const Step& a_step, const OtherStep& b_step) {
  const std::int64_t c_row = p.c_row * static_cast<std::int64_t>(sizeof(float));
  float* const below = c + Tile::rows * p.c_row;
  if (p.accumulates) {
    _tile_loadd(0, c, c_row);
    _tile_loadd(1, c + Tile::rows, c_row);
    _tile_loadd(2, below, c_row);
    _tile_loadd(3, below + Tile::rows, c_row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t k = 0; k < p.depth; ++k) {
    const char* const left = a + a_step(k);
    const char* const right = b + b_step(k);
    _tile_loadd(4, left, Tile::row_bytes);
    _tile_loadd(6, right, p.b_row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, right + p.b_next, p.b_row);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, left + p.a_next, Tile::row_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_row);
  _tile_stored(1, c + Tile::rows, c_row);
  _tile_stored(2, below, c_row);
  _tile_stored(3, below + Tile::rows, c_row);
}

#else

struct Configuration {
  Configuration() {}
};
[[gnu::always_inline]] inline void finish_stores() {}

template <class Step, class OtherStep>
[[gnu::always_inline]] inline void square(const TileProduct& p, const char* a, const char* b, float* c,
                                          const Step& a_step, const OtherStep& b_step) {
  const auto number = [](const char* from, std::int64_t i) {
    return load(reinterpret_cast<const Bf16*>(from) + i);
  };
  for (std::int64_t row = 0; row < Tile::pair; ++row) {
    const char* const a_tile = a + row / Tile::rows * p.a_next + row % Tile::rows * Tile::row_bytes;
    for (std::int64_t column = 0; column < Tile::pair; ++column) {
      const char* const b_tile = b + column / Tile::rows * p.b_next;
      float& sum = c[row * p.c_row + column];
      if (!p.accumulates) sum = 0;
      for (std::int64_t k = 0; k < p.depth; ++k) {
        for (std::int64_t term = 0; term < Tile::terms; ++term) {
          const std::int64_t at = column % Tile::rows * 2 + term % 2;
          sum += number(a_tile + a_step(k), term) * number(b_tile + b_step(k) + term / 2 * p.b_row, at);
        }
      }
    }
  }
}

#endif

/// Square by square.
template <class Step, class OtherStep>
[[gnu::always_inline]] inline void multiply(const TileProduct& p, const void* a, const void* b, float* c,
                                            const Step& a_step, const OtherStep& b_step) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int64_t column = 0; column < p.columns; ++column) {
      square(p, static_cast<const char*>(a) + 2 * row * p.a_next,
             static_cast<const char*>(b) + 2 * column * p.b_next, c + row * p.c_below + column * p.c_right,
             a_step, b_step);
    }
  }
}

/// What TileProduct says, under a configuration.
[[gnu::always_inline]] inline void multiply(const TileProduct& p, const void* a, const void* b, float* c) {
  finish_stores();
  const auto behind = [](std::int64_t k) { return k * Tile::bytes; };
  const auto a_step = [&p](std::int64_t k) { return p.a_steps[k]; };
  if (p.a_steps == nullptr) {
    multiply(p, a, b, c, behind, behind);
  } else if (p.b_steps == nullptr) {
    multiply(p, a, b, c, a_step, behind);
  } else {
    multiply(p, a, b, c, a_step, [&p](std::int64_t k) { return p.b_steps[k]; });
  }
}

}  // namespace
}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
