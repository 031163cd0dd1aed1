#include "kernels/cpu/simd/lanes.h"
#include "kernels/winograd_conv2d.h"

// Compiled with contraction: these are sums, and a fused multiply-add is half of two operations.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

using L = Lanes<native_width>;
using Floats = L::Floats;

constexpr std::int64_t panel = WinogradTiles::panel;
constexpr int most_rows = native_width == 16 ? 12 : 6;  ///< whose sums stay in registers, two vectors of each

struct F32 {
  using Word = float;
  static constexpr std::int64_t a_width = panel;  ///< words in a row of a's panel
  static constexpr std::int64_t most_depth = 32;  ///< words of a partial sum: short ones round less

  static Floats load(const Word* from) { return L::load(from); }
  [[gnu::always_inline]] static inline void add_products(Floats& sum, Word a, Floats b) { sum += a * b; }
};

/// Words of two.
struct Bf16Pairs {
  using Word = std::uint32_t;
  static constexpr std::int64_t a_width = panel / 2;
  static constexpr std::int64_t most_depth = 128;  ///< whose rounding is far below that of factors

  static L::Words load(const Word* from) { return L::load_words(from); }
  [[gnu::always_inline]] static inline void add_products(Floats& sum, Word a, L::Words b) {
    L::add_products(sum, L::Words{} + a, b);
  }
};

/// What a call of `block` works on: rows of a and c from the first on, and one or two vectors of columns.
template <class Word>
struct Place {
  const Word* a;
  const Word* b[2];
  float* c[2];
};

/// a's word (row, k) is at row * a_width + k % a_width of the panel of k or, transposed, at k * panel + row.
template <class Factors, int rows, int vectors, bool transposes>
[[gnu::always_inline]] inline void block(const WinogradProduct& p, const Place<typename Factors::Word>& at,
                                         std::int64_t depth, bool accumulates) {
  constexpr std::int64_t width = Factors::a_width;
  Floats sums[rows][vectors] = {};
  const typename Factors::Word* a = at.a;
  std::int64_t from = 0;
  const auto add = [&](std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) {
      decltype(Factors::load(a)) factors[vectors];
#pragma GCC unroll 2
      for (int i = 0; i < vectors; ++i) factors[i] = Factors::load(at.b[i] + from);
#pragma GCC unroll 16
      for (int row = 0; row < rows; ++row) {
        const auto factor = transposes ? a[row] : a[row * width];
#pragma GCC unroll 2
        for (int i = 0; i < vectors; ++i) Factors::add_products(sums[row][i], factor, factors[i]);
      }
      a += transposes ? panel : 1;
      from += panel;
    }
  };
  if (transposes) {
    add(depth);
  } else {
    for (std::int64_t k = 0; k < depth; k += width, a += p.a_panel - width) add(width);
  }
#pragma GCC unroll 16
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < vectors; ++i) {
      float* const c = at.c[i] + row * panel;
      L::store(c, accumulates ? L::load(c) + sums[row][i] : sums[row][i]);
    }
  }
}

/// `count` rows, as many at once as registers hold, and then the rest of them.
template <class Factors, int rows, int vectors, bool transposes>
void blocks(const WinogradProduct& p, Place<typename Factors::Word> at, std::int64_t count,
            std::int64_t depth, bool accumulates) {
  for (; count >= rows; count -= rows) {
    block<Factors, rows, vectors, transposes>(p, at, depth, accumulates);
    at.a += transposes ? rows : rows * Factors::a_width;
    for (float*& c : at.c) c += rows * panel;
  }
  if constexpr (rows > 1) {
    if (count > 0) blocks<Factors, rows - 1, vectors, transposes>(p, at, count, depth, accumulates);
  }
}

/// All rows, for `depth` from k on.
template <class Factors, int vectors, bool transposes>
void columns(const WinogradProduct& p, const Place<typename Factors::Word>& at, std::int64_t k,
             std::int64_t depth) {
  constexpr std::int64_t width = Factors::a_width;
  const bool accumulates = p.accumulates || k > 0;
  const auto from = [&](const typename Factors::Word* a, std::int64_t row) {
    return Place<typename Factors::Word>{
        a, {at.b[0] + k * panel, at.b[1] + k * panel}, {at.c[0] + row * panel, at.c[1] + row * panel}};
  };
  if constexpr (!transposes) {
    return blocks<Factors, most_rows, vectors, false>(p, from(at.a + k / width * p.a_panel, 0), p.rows, depth,
                                                      accumulates);
  }
  for (std::int64_t row = 0; row < p.rows; row += panel) {
    blocks<Factors, most_rows, vectors, true>(p, from(at.a + row / panel * p.a_panel + k * panel, row), panel,
                                              depth, accumulates);
  }
}

/// All of c in `vectors` vectors of columns.
template <class Factors, int vectors>
void product(const WinogradProduct& p, const Place<typename Factors::Word>& at) {
  for (std::int64_t k = 0; k < p.depth; k += Factors::most_depth) {
    const std::int64_t depth = p.depth - k < Factors::most_depth ? p.depth - k : Factors::most_depth;
    if (p.transposes)
      columns<Factors, vectors, true>(p, at, k, depth);
    else
      columns<Factors, vectors, false>(p, at, k, depth);
  }
}

template <class Factors>
void multiply(const WinogradProduct& p, const void* a, const void* b, float* c) {
  using Word = typename Factors::Word;
  const std::int64_t n = p.panels * panel;
  const auto offset = [](std::int64_t i, std::int64_t stride) { return i / panel * stride + i % panel; };
  const auto* const words = static_cast<const Word*>(b);
  for (std::int64_t column = 0; column < n; column += 2 * native_width) {
    const bool has_second = column + native_width < n;
    const std::int64_t second = has_second ? column + native_width : column;
    const Place<Word> at{static_cast<const Word*>(a),
                         {words + offset(column, p.b_panel), words + offset(second, p.b_panel)},
                         {c + offset(column, p.c_panel), c + offset(second, p.c_panel)}};
    if (has_second)
      product<Factors, 2>(p, at);
    else
      product<Factors, 1>(p, at);  // an odd number of panels, each as wide as a register
  }
}

}  // namespace

void run(const WinogradProduct& p, const void* a, const void* b, float* c) {
  if (p.factors == DType::bf16) return multiply<Bf16Pairs>(p, a, b, c);
  multiply<F32>(p, a, b, c);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
