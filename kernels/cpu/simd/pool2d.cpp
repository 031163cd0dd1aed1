#include "kernels/pool2d.h"

#include "kernels/cpu/simd/pool_windows.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// `visit(window, offset in y)` for each output pixel.
template <class Visit>
inline void for_each_window(const PoolPlane& p, Visit visit) {
  for (std::int64_t row = 0; row < p.out_height; ++row) {
    for (std::int64_t column = 0; column < p.out_width; ++column) {
      visit(window_at(p, row, column), row * p.y_row + column * p.pixel);
    }
  }
}

/// `visit(offset in x)` for each pixel of a window, row by row. Windows of 3x3, the usual ones that overlap,
/// are unrolled.
template <class Visit>
[[gnu::always_inline]] inline void for_each_pixel(const PoolPlane& p, const Window& w, const Visit& visit) {
  if (w.bottom - w.top == 3 && w.right - w.left == 3) {
    const std::int64_t first = w.top * p.x_row + w.left * p.pixel;
#pragma GCC unroll 3
    for (std::int64_t row = 0; row < 3; ++row) {
#pragma GCC unroll 3
      for (std::int64_t column = 0; column < 3; ++column) visit(first + row * p.x_row + column * p.pixel);
    }
    return;
  }
  for (std::int64_t row = w.top; row < w.bottom; ++row) {
    for (std::int64_t column = w.left; column < w.right; ++column) visit(row * p.x_row + column * p.pixel);
  }
}

/// The common case, whose windows need no clipping: `visit(offset in x, offset in y)`.
template <class Visit>
inline void for_each_quad(const PoolPlane& p, Visit visit) {
  for (std::int64_t row = 0; row < p.out_height; ++row) {
    for (std::int64_t column = 0; column < p.out_width; ++column) {
      visit(2 * row * p.x_row + 2 * column * p.pixel, row * p.y_row + column * p.pixel);
    }
  }
}

template <class Element>
void clear_plane(const PoolPlane& p, Element* dx) {
  for (std::int64_t row = 0; row < p.height; ++row) {
    for (std::int64_t column = 0; column < p.width; ++column) {
      for (std::int64_t lane = 0; lane < p.lanes; ++lane) dx[row * p.x_row + column * p.pixel + lane] = {};
    }
  }
}

template <int width>
struct MaxPool : Lanes<width> {
  using L = Lanes<width>;
  using typename L::Floats;
  typedef std::int32_t Ints __attribute__((vector_size(width * sizeof(float))));

  /// PyTorch's rule: greater wins, the first of equals stays, a NaN always wins.
  static Ints replaces(Floats value, Floats best) { return (value > best) | (value != value); }

  template <class Element>
  static void forward(const PoolPlane& p, const Element* x, Element* y) {
    for_each_window(p, [&](const Window& w, std::int64_t at) {
      Floats best = L::all(-__builtin_inff());
      for_each_pixel(
          p, w, [&](std::int64_t pixel) __attribute__((always_inline)) {
            const Floats value = L::load(x + pixel);
            best = replaces(value, best) ? value : best;
          });
      L::store(y + at, best);
    });
  }

  template <class Element>
  static void forward_quads(const PoolPlane& p, const Element* x, Element* y) {
    for_each_quad(p, [&](std::int64_t from, std::int64_t at) {
      Floats best = L::load(x + from);
      const std::int64_t others[] = {from + p.pixel, from + p.x_row, from + p.x_row + p.pixel};
      for (const std::int64_t pixel : others) {
        const Floats value = L::load(x + pixel);
        best = replaces(value, best) ? value : best;
      }
      L::store(y + at, best);
    });
  }

  static Floats masked(bool relu_mask, Floats best, Floats gradient) {
    return relu_mask ? (best > 0 ? gradient : Floats{}) : gradient;
  }

  template <class Element>
  static void backward(const PoolPlane& p, bool relu_mask, const Element* x, const Element* dy, Element* dx) {
    for_each_window(p, [&](const Window& w, std::int64_t at) {
      Floats best = L::all(-__builtin_inff());
      Ints winner{};
      std::int32_t position = 0;
      for_each_pixel(
          p, w, [&](std::int64_t pixel) __attribute__((always_inline)) {
            const Floats value = L::load(x + pixel);
            const Ints better = replaces(value, best);
            best = better ? value : best;
            winner = better ? Ints{} + position : winner;
            ++position;
          });
      const Floats gradient = masked(relu_mask, best, L::load(dy + at));
      position = 0;
      for_each_pixel(
          p, w, [&](std::int64_t pixel) __attribute__((always_inline)) {
            L::store(dx + pixel, L::load(dx + pixel) + (winner == position ? gradient : Floats{}));
            ++position;
          });
    });
  }

  /// Writes each pixel of dx that lies in a window, once.
  template <class Element>
  static void backward_quads(const PoolPlane& p, bool relu_mask, const Element* x, const Element* dy,
                             Element* dx) {
    for_each_quad(p, [&](std::int64_t from, std::int64_t at) {
      const std::int64_t pixels[] = {from, from + p.pixel, from + p.x_row, from + p.x_row + p.pixel};
      Floats best = L::load(x + from);
      Ints winner{};
#pragma GCC unroll 3
      for (std::int32_t i = 1; i < 4; ++i) {
        const Floats value = L::load(x + pixels[i]);
        const Ints better = replaces(value, best);
        best = better ? value : best;
        winner = better ? Ints{} + i : winner;
      }
      const Floats gradient = masked(relu_mask, best, L::load(dy + at));
#pragma GCC unroll 4
      for (std::int32_t i = 0; i < 4; ++i) L::store(dx + pixels[i], winner == i ? gradient : Floats{});
    });
  }
};

template <int width>
struct AvgPool : Lanes<width> {
  using L = Lanes<width>;
  using typename L::Floats;

  template <class Element>
  static void forward(const PoolPlane& p, const Element* x, Element* y) {
    const auto size = static_cast<float>(p.kernel_h * p.kernel_w);
    for_each_window(p, [&](const Window& w, std::int64_t at) {
      Floats sum{};
      for_each_pixel(
          p, w, [&](std::int64_t pixel) __attribute__((always_inline)) { sum += L::load(x + pixel); });
      L::store(y + at, sum / size);
    });
  }

  template <class Element>
  static void backward(const PoolPlane& p, const Element* dy, Element* dx) {
    const auto size = static_cast<float>(p.kernel_h * p.kernel_w);
    for_each_window(p, [&](const Window& w, std::int64_t at) {
      const Floats share = L::load(dy + at) / size;
      for_each_pixel(
          p, w, [&](std::int64_t pixel) __attribute__((always_inline)) {
            L::store(dx + pixel, L::load(dx + pixel) + share);
          });
    });
  }
};

template <class Element>
void max_forward(const PoolPlane& plane, const Element* x, Element* y) {
  const bool quads = is_quads(plane);
  for_lanes<MaxPool>(plane, [&](auto pool, std::int64_t at) {
    if (quads) {
      pool.forward_quads(plane, x + at, y + at);
    } else {
      pool.forward(plane, x + at, y + at);
    }
  });
}

template <class Element>
void max_backward(const PoolPlane& plane, bool relu_mask, const Element* x, const Element* dy, Element* dx) {
  const bool quads = is_quads(plane);
  if (!quads || plane.height % 2 != 0 || plane.width % 2 != 0) clear_plane(plane, dx);
  for_lanes<MaxPool>(plane, [&](auto pool, std::int64_t at) {
    if (quads) {
      pool.backward_quads(plane, relu_mask, x + at, dy + at, dx + at);
    } else {
      pool.backward(plane, relu_mask, x + at, dy + at, dx + at);
    }
  });
}

}  // namespace

void run(const MaxPool2d&, const PoolPlane& plane, const void* x, void* y) {
  with_element(plane, [&]<class Element>(Element*) {
    max_forward(plane, static_cast<const Element*>(x), static_cast<Element*>(y));
  });
}

void run(const MaxPool2dBackward& op, const PoolPlane& plane, const void* x, const void* dy, void* dx) {
  with_element(plane, [&]<class Element>(Element*) {
    max_backward(plane, op.relu_mask, static_cast<const Element*>(x), static_cast<const Element*>(dy),
                 static_cast<Element*>(dx));
  });
}

void run(const AvgPool2d&, const PoolPlane& plane, const void* x, void* y) {
  with_element(plane, [&]<class Element>(Element*) {
    const auto* const from = static_cast<const Element*>(x);
    auto* const to = static_cast<Element*>(y);
    for_lanes<AvgPool>(plane, [&](auto pool, std::int64_t at) { pool.forward(plane, from + at, to + at); });
  });
}

/// Where windows overlap, bf16 is rounded after each of them, as in PyTorch.
void run(const AvgPool2dBackward&, const PoolPlane& plane, const void* dy, void* dx) {
  with_element(plane, [&]<class Element>(Element*) {
    const auto* const from = static_cast<const Element*>(dy);
    auto* const to = static_cast<Element*>(dx);
    clear_plane(plane, to);
    for_lanes<AvgPool>(plane, [&](auto pool, std::int64_t at) { pool.backward(plane, from + at, to + at); });
  });
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
