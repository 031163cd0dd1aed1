#pragma once

#include "kernels/cpu/simd/lanes.h"
#include "kernels/winograd_conv2d.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

constexpr int taps = 3;

/// The transforms of one axis of F(extent, 3) (Lavin and Gray, section 4): of pictures, of filters, and of
/// the sums of products back to pixels or taps.
template <class Floats, int extent>
struct Points;

/// For the points 0, a, -a, b, -b and infinity. The paper's points are 1 and 2; those here amplify the
/// rounding of a product 2.2 times less in the mean of a tile's pixels, and 3.8 times less in the worst: the
/// sums over points of the squares of A, B and G say so (B. Barabasz et al., "Error analysis and improving
/// the accuracy of Winograd convolution for deep neural networks", 2020, section 5).
template <class Floats>
struct Points<Floats, 4> {
  static constexpr int window = 6;
  static constexpr float a = 0.625F;
  static constexpr float b = 1.5F;
  static constexpr float a2 = a * a;
  static constexpr float b2 = b * b;

  [[gnu::always_inline]] static inline void input(const Floats (&d)[window], Floats (&out)[window]) {
    const Floats even_a = d[4] - b2 * d[2];
    const Floats odd_a = a * (d[3] - b2 * d[1]);
    const Floats even_b = d[4] - a2 * d[2];
    const Floats odd_b = b * (d[3] - a2 * d[1]);
    out[0] = d[4] - (a2 + b2) * d[2] + a2 * b2 * d[0];
    out[1] = even_a + odd_a;
    out[2] = even_a - odd_a;
    out[3] = even_b + odd_b;
    out[4] = even_b - odd_b;
    out[5] = d[5] - (a2 + b2) * d[3] + a2 * b2 * d[1];
  }
  /// Of a filter of three taps or, for a gradient, of four.
  template <int count>
  [[gnu::always_inline]] static inline void filter(const Floats (&g)[count], Floats (&out)[window]) {
    constexpr float of_0 = 1 / (a2 * b2);
    constexpr float of_a = 1 / (2 * a2 * (a2 - b2));
    constexpr float of_b = 1 / (2 * b2 * (b2 - a2));
    Floats odd_a = a * g[1];
    Floats odd_b = b * g[1];
    if constexpr (count == 4) {
      odd_a += a2 * a * g[3];
      odd_b += b2 * b * g[3];
    }
    const Floats even_a = g[0] + a2 * g[2];
    const Floats even_b = g[0] + b2 * g[2];
    out[0] = of_0 * g[0];
    out[1] = of_a * (even_a + odd_a);
    out[2] = of_a * (even_a - odd_a);
    out[3] = of_b * (even_b + odd_b);
    out[4] = of_b * (even_b - odd_b);
    out[5] = g[count - 1];
  }
  /// Four pixels or, for gradients of filters, three taps.
  template <int count>
  [[gnu::always_inline]] static inline void output(const Floats (&m)[window], Floats (&out)[count]) {
    const Floats even_a = m[1] + m[2];
    const Floats odd_a = m[1] - m[2];
    const Floats even_b = m[3] + m[4];
    const Floats odd_b = m[3] - m[4];
    out[0] = m[0] + even_a + even_b;
    out[1] = a * odd_a + b * odd_b;
    out[2] = a2 * even_a + b2 * even_b;
    if constexpr (count == 4) out[3] = a2 * a * odd_a + b2 * b * odd_b;
    out[count - 1] += m[5];
  }
};

/// For the points 0, 1, -1 and infinity: the paper's F(2, 3), of which the last line has the other sign.
template <class Floats>
struct Points<Floats, 2> {
  static constexpr int window = 4;

  [[gnu::always_inline]] static inline void input(const Floats (&d)[window], Floats (&out)[window]) {
    out[0] = d[0] - d[2];
    out[1] = d[2] + d[1];
    out[2] = d[2] - d[1];
    out[3] = d[3] - d[1];
  }
  /// Of a filter of three taps or, for a gradient, of two.
  template <int count>
  [[gnu::always_inline]] static inline void filter(const Floats (&g)[count], Floats (&out)[window]) {
    const Floats odd = 0.5F * g[1];
    Floats even = 0.5F * g[0];
    if constexpr (count == 3) even += 0.5F * g[2];
    out[0] = g[0];
    out[1] = even + odd;
    out[2] = even - odd;
    out[3] = g[count - 1];
  }
  /// Two pixels or, for gradients of filters, three taps.
  template <int count>
  [[gnu::always_inline]] static inline void output(const Floats (&m)[window], Floats (&out)[count]) {
    const Floats even = m[1] + m[2];
    out[0] = m[0] + even;
    out[1] = m[1] - m[2];
    if constexpr (count == 3) out[2] = even;
    out[count - 1] += m[3];
  }
};

/// `from(row, column)` of in x in elements to `to(row, column, element)` of out x out: the transform of both
/// axes.
template <int in, int out, class Floats, class Transform, class From, class To>
[[gnu::always_inline]] inline void both_axes(Transform transform, From from, To to) {
  Floats half[out][in];
#pragma GCC unroll 6
  for (int column = 0; column < in; ++column) {
    Floats line[in];
    Floats result[out];
#pragma GCC unroll 6
    for (int row = 0; row < in; ++row) line[row] = from(row, column);
    transform(line, result);
#pragma GCC unroll 6
    for (int row = 0; row < out; ++row) half[row][column] = result[row];
  }
#pragma GCC unroll 6
  for (int row = 0; row < out; ++row) {
    Floats result[out];
    transform(half[row], result);
#pragma GCC unroll 6
    for (int column = 0; column < out; ++column) to(row, column, result[column]);
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
