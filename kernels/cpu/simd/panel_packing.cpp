#include "kernels/cpu/simd/lanes.h"
#include "kernels/panel_product.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

using L = Lanes<native_width>;
using Floats = L::Floats;

/// A square: each round of mixing turns one bit of the place in a row into one of the row.
[[gnu::always_inline]] inline void square(const float* from, std::int64_t from_row, float* to,
                                          std::int64_t to_row) {
  constexpr int half = native_width / 2;
  Floats rows[native_width];
#pragma GCC unroll 16
  for (int i = 0; i < native_width; ++i) rows[i] = L::load(from + i * from_row);
#pragma GCC unroll 4
  for (int bit = 1; bit < native_width; bit *= 2) {
    Floats mixes[native_width];
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) {
      const auto [first, second] = Alternating<Floats>::of(rows[i], rows[i + half]);
      mixes[2 * i] = first;
      mixes[2 * i + 1] = second;
    }
#pragma GCC unroll 16
    for (int i = 0; i < native_width; ++i) rows[i] = mixes[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < native_width; ++i) L::store(to + i * to_row, rows[i]);
}

constexpr std::int64_t panel = PanelProduct::columns;
constexpr int vectors = panel / native_width;

void add_to(float* sums, const Floats (&totals)[vectors]) {
  if (sums == nullptr) return;
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) {
    float* const sum = sums + i * native_width;
    L::store(sum, L::load(sum) + totals[i]);
  }
}

void copy(const PanelCopy& copy, const float* from, float* to, float* sums) {
  Floats totals[vectors] = {};
  for (std::int64_t row = 0; row < copy.rows; ++row, from += copy.from_row, to += panel) {
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) {
      const Floats values = L::load(from + i * native_width);
      L::store(to + i * native_width, values);
      totals[i] += values;
    }
  }
  add_to(sums, totals);
}

/// As wide as a register.
typedef std::uint16_t Bf16s __attribute__((vector_size(native_width * sizeof(float))));
typedef std::uint16_t UnalignedBf16s
    __attribute__((vector_size(native_width * sizeof(float)), aligned(sizeof(Bf16)), may_alias));

/// The sums are those of products with 1.
void copy_pairs(const PanelCopy& copy, const Bf16* from, std::uint32_t* to, float* sums) {
  constexpr std::uint32_t one = 0x3F80;
  constexpr L::Words ones = L::Words{} + (one << 16 | one);
  Floats totals[vectors] = {};
  for (std::int64_t row = 0; row < copy.rows; row += 2, from += 2 * copy.from_row, to += panel) {
#pragma GCC unroll 8
    for (int i = 0; i < vectors / 2; ++i) {
      const Bf16* const at = from + 2 * i * native_width;
      const Bf16s first = *reinterpret_cast<const UnalignedBf16s*>(at);
      const Bf16s second =
          row + 1 < copy.rows ? *reinterpret_cast<const UnalignedBf16s*>(at + copy.from_row) : Bf16s{};
      const auto pairs = Alternating<Bf16s>::of(first, second);
      const L::Words words[] = {(L::Words)pairs.first, (L::Words)pairs.second};
      for (int half = 0; half < 2; ++half) {
        L::store_words(to + (2 * i + half) * native_width, words[half]);
        L::add_products(totals[2 * i + half], words[half], ones);
      }
    }
  }
  add_to(sums, totals);
}

}  // namespace

void run(const PanelCopy& c, const void* from, void* to, float* sums) {
  if (c.dtype == DType::bf16)
    return copy_pairs(c, static_cast<const Bf16*>(from), static_cast<std::uint32_t*>(to), sums);
  copy(c, static_cast<const float*>(from), static_cast<float*>(to), sums);
}

void run(const Transpose& t, const float* from, float* to) {
  constexpr int n = native_width;
  const std::int64_t rows = t.rows / n * n;
  const std::int64_t columns = t.columns / n * n;
  for (std::int64_t row = 0; row < rows; row += n) {
    for (std::int64_t column = 0; column < columns; column += n) {
      square(from + row * t.from_row + column, t.from_row, to + column * t.to_row + row, t.to_row);
    }
  }
  for (std::int64_t row = 0; row < t.rows; ++row) {
    for (std::int64_t column = row < rows ? columns : 0; column < t.columns; ++column) {
      to[column * t.to_row + row] = from[row * t.from_row + column];
    }
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
