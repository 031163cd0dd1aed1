#pragma once

#include "kernels/cpu/simd/lanes.h"

/// How rows of a matrix become a row of a panel's words (kernels/panel_product.h).
namespace lockstep::kernels::simd::LOCKSTEP_ISA {

struct FloatRows {
  using L = Lanes<native_width>;
  using Element = float;
  using Word = float;
  using Vector = L::Floats;
  static constexpr std::int64_t terms = 1;  ///< rows that make one of words

  [[gnu::always_inline]] static inline Vector load(const Word* from) { return L::load(from); }

  /// Of `vectors` vectors, which are also stored.
  template <int vectors>
  [[gnu::always_inline]] static inline void copy(const Element* from, std::int64_t, bool, Word* to,
                                                 Vector (&words)[vectors]) {
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) {
      words[i] = L::load(from + i * native_width);
      L::store(to + i * native_width, words[i]);
    }
  }
  [[gnu::always_inline]] static inline void add(L::Floats& sum, Vector words) {
    sum += words;
  }
  [[gnu::always_inline]] static inline void add_products(L::Floats& sum, Word a, Vector b) {
    sum += a * b;
  }
};

struct Bf16Rows {
  using L = Lanes<native_width>;
  using Element = Bf16;
  using Word = std::uint32_t;
  using Vector = L::Words;
  static constexpr std::int64_t terms = 2;

  [[gnu::always_inline]] static inline Vector load(const Word* from) { return L::load_words(from); }

  /// `both`: there is a second row; else zeros stand for it.
  template <int vectors>
  [[gnu::always_inline]] static inline void copy(const Element* from, std::int64_t from_row, bool both,
                                                 Word* to, Vector (&words)[vectors]) {
#pragma GCC unroll 8
    for (int i = 0; i < vectors; i += 2) {
      const Element* const at = from + i * native_width;
      const Row first = *reinterpret_cast<const UnalignedRow*>(at);
      const Row second = both ? *reinterpret_cast<const UnalignedRow*>(at + from_row) : Row{};
      const auto pairs = Alternating<Row>::of(first, second);
      words[i] = (Vector)pairs.first;
      words[i + 1] = (Vector)pairs.second;
      L::store_words(to + i * native_width, words[i]);
      L::store_words(to + (i + 1) * native_width, words[i + 1]);
    }
  }
  /// Sums are those of products with 1.
  [[gnu::always_inline]] static inline void add(L::Floats& sum, Vector words) {
    constexpr std::uint32_t one = 0x3F80;
    L::add_products(sum, words, Vector{} + (one << 16 | one));
  }
  [[gnu::always_inline]] static inline void add_products(L::Floats& sum, Word a, Vector b) {
    L::add_products(sum, Vector{} + a, b);
  }

 private:
  /// As wide as a register.
  typedef std::uint16_t Row __attribute__((vector_size(native_width * sizeof(float))));
  typedef std::uint16_t UnalignedRow
      __attribute__((vector_size(native_width * sizeof(float)), aligned(sizeof(Bf16)), may_alias));
};

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
