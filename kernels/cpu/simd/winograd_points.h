#pragma once

#include "kernels/cpu/simd/lanes.h"
#include "kernels/winograd_conv2d.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

constexpr int extent = WinogradTiles::extent;
constexpr int window = WinogradTiles::window;
constexpr int taps = 3;

/// The transforms of one axis for the points 0, 1, -1, 2, -2 and infinity (Lavin and Gray, section 4): of
/// pictures, of the sums of products back to pixels, and of filters of three taps.
template <class Floats>
struct Points {
  [[gnu::always_inline]] static inline void input(const Floats (&d)[window], Floats (&out)[window]) {
    const Floats a = d[4] - 4.0F * d[2];
    const Floats b = d[3] - 4.0F * d[1];
    const Floats c = d[4] - d[2];
    const Floats e = 2.0F * (d[3] - d[1]);
    out[0] = 4.0F * (d[0] - d[2]) + c;
    out[1] = a + b;
    out[2] = a - b;
    out[3] = c + e;
    out[4] = c - e;
    out[5] = 4.0F * (d[1] - d[3]) + (d[5] - d[3]);
  }
  [[gnu::always_inline]] static inline void output(const Floats (&m)[window], Floats (&out)[extent]) {
    const Floats s = m[1] + m[2];
    const Floats t = m[1] - m[2];
    const Floats u = m[3] + m[4];
    const Floats v = m[3] - m[4];
    out[0] = m[0] + s + u;
    out[1] = t + 2.0F * v;
    out[2] = s + 4.0F * u;
    out[3] = t + 8.0F * v + m[5];
  }
  /// Of a filter of three taps or, for a gradient, of four.
  template <int count>
  [[gnu::always_inline]] static inline void filter(const Floats (&g)[count], Floats (&out)[window]) {
    constexpr float sixth = 1.0F / 6;
    constexpr float part = 1.0F / 24;
    Floats odd = g[1];
    Floats odd_of_2 = 2.0F * g[1];
    if constexpr (count == 4) {
      odd += g[3];
      odd_of_2 += 8.0F * g[3];
    }
    const Floats even = g[0] + g[2];
    const Floats even_of_2 = g[0] + 4.0F * g[2];
    out[0] = 0.25F * g[0];
    out[1] = -sixth * (even + odd);
    out[2] = -sixth * (even - odd);
    out[3] = part * (even_of_2 + odd_of_2);
    out[4] = part * (even_of_2 - odd_of_2);
    out[5] = g[count - 1];
  }
  [[gnu::always_inline]] static inline void taps_of(const Floats (&m)[window], Floats (&out)[taps]) {
    const Floats s = m[1] + m[2];
    const Floats t = m[1] - m[2];
    const Floats u = m[3] + m[4];
    const Floats v = m[3] - m[4];
    out[0] = m[0] + s + u;
    out[1] = t + 2.0F * v;
    out[2] = s + 4.0F * u + m[5];
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
