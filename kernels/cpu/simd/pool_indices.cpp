#include "kernels/pool_indices.h"

#include "kernels/cpu/simd/pool_windows.h"

#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

// A row of pixels at a time, all of its lanes: what lies side by side is read while its lines are in the
// cache. Backward gathers, so each element of dx is written once.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// The usual windows have loops of their own.
enum class Kind { quads, nines, any };

Kind kind_of(const PoolPlane& p) {
  if (is_quads(p)) return Kind::quads;
  const bool nines = p.kernel_h == 3 && p.kernel_w == 3 && p.stride_h == 2 && p.stride_w == 2 &&
                     p.padding_h == 1 && p.padding_w == 1;
  return nines ? Kind::nines : Kind::any;
}

/// The windows that hold index `at` of the input; `next` moves on to the next index without a division.
struct WindowsOver {
  std::int64_t at, kernel, stride, padding, windows, begin, end;

  WindowsOver(std::int64_t index, std::int64_t size, std::int64_t step, std::int64_t margin,
              std::int64_t count)
      : at(index),
        kernel(size),
        stride(step),
        padding(margin),
        windows(count),
        begin(at + padding < kernel ? 0 : (at + padding - kernel) / stride + 1),
        end((at + padding) / stride < windows ? (at + padding) / stride + 1 : windows) {}

  void next() {
    ++at;
    if (begin * stride - padding + kernel <= at) ++begin;
    if (end < windows && end * stride - padding <= at) ++end;
  }
};

template <int width>
struct IndexedPool : Lanes<width> {
  using L = Lanes<width>;
  using typename L::Floats;
  typedef std::int32_t Ints __attribute__((vector_size(width * sizeof(float))));
  typedef std::uint8_t Bytes __attribute__((vector_size(width)));
  typedef std::uint8_t UnalignedBytes __attribute__((vector_size(width), aligned(1), may_alias));

  template <class To, class From>
  [[gnu::always_inline]] static inline To converted(From from) {
    return __builtin_convertvector(from, To);
  }

  static Bytes load_places(const std::uint8_t* from) {
    return *reinterpret_cast<const UnalignedBytes*>(from);
  }

  /// The greatest so far. PyTorch's rule: greater wins, the first of equals stays, a NaN always wins.
  struct Best {
    Floats value;
    Ints place;

    [[gnu::always_inline]] inline void compare(Floats other, std::int32_t at) {
      const Ints better = (other > value) | (other != other);
      value = better ? other : value;
      place = better ? Ints{} + at : place;
    }

    template <class Element>
    [[gnu::always_inline]] inline void store(bool relu_mask, Element* y, std::uint8_t* indices) const {
      L::store(y, value);
      const Ints kept = relu_mask ? (value > 0 ? place : Ints{} + MaxPool2dWithIndices::no_place) : place;
      *reinterpret_cast<UnalignedBytes*>(indices) = converted<Bytes>(kept);
    }
  };

  /// Of a window that lies inside the input.
  template <int size, class Element>
  [[gnu::always_inline]] static inline Best best_of(const PoolPlane& p, const Element* first) {
    Best best{L::load(first), Ints{}};
#pragma GCC unroll 9
    for (int i = 1; i < size * size; ++i)
      best.compare(L::load(first + i / size * p.x_row + i % size * p.pixel), i);
    return best;
  }

  template <class Element>
  static Best best_inside(const PoolPlane& p, std::int64_t row, std::int64_t column, const Element* x) {
    const std::int64_t top = row * p.stride_h - p.padding_h;
    const std::int64_t left = column * p.stride_w - p.padding_w;
    const Window w = window_at(p, row, column);
    const auto place = [&](std::int64_t r, std::int64_t c) {
      return static_cast<std::int32_t>((r - top) * p.kernel_w + c - left);
    };
    Best best{L::all(-__builtin_inff()), Ints{} + place(w.top, w.left)};
    for (std::int64_t r = w.top; r < w.bottom; ++r) {
      for (std::int64_t c = w.left; c < w.right; ++c)
        best.compare(L::load(x + r * p.x_row + c * p.pixel), place(r, c));
    }
    return best;
  }

  /// `size`: of windows that have loops of their own, else 0.
  template <int size, class Element>
  static void forward_row(const PoolPlane& p, bool relu_mask, std::int64_t row, const Element* x, Element* y,
                          std::uint8_t* indices) {
    const std::int64_t top = row * p.stride_h - p.padding_h;
    const bool whole_rows = top >= 0 && top + size <= p.height;
    for (std::int64_t column = 0; column < p.out_width; ++column) {
      const std::int64_t left = column * p.stride_w - p.padding_w;
      const std::int64_t at = row * p.y_row + column * p.pixel;
      const bool whole = size > 0 && whole_rows && left >= 0 && left + size <= p.width;
      const Best best =
          whole ? best_of<size>(p, x + top * p.x_row + left * p.pixel) : best_inside(p, row, column, x);
      best.store(relu_mask, y + at, indices + at);
    }
  }

  /// What one window gives: its gradient, where its maximum was.
  struct Given {
    Floats gradient;
    Bytes place;

    [[gnu::always_inline]] inline Floats to(std::uint8_t at) const {
#if defined(__AVX512BW__)
      // The compiler widens bytes before it compares them.
      if constexpr (width == 16) {
        const __m128i wanted = _mm_set1_epi8(static_cast<char>(at));
        const __mmask16 there = _mm_cmpeq_epi8_mask((__m128i)place, wanted);
        return (Floats)_mm512_maskz_mov_ps(there, (__m512)gradient);
      }
#endif
      return converted<Ints>(place) == at ? gradient : Floats{};
    }
  };

  template <class Element>
  [[gnu::always_inline]] static inline Given given(const Element* dy, const std::uint8_t* indices,
                                                   std::int64_t at) {
    return {L::load(dy + at), load_places(indices + at)};
  }

  template <class Element>
  static void backward_quads(const PoolPlane& p, std::int64_t row, std::int64_t windows, const Element* dy,
                             const std::uint8_t* indices, Element* dx) {
    for (std::int64_t column = 0; column < windows; ++column) {
      const Given window = given(dy, indices, row * p.y_row + column * p.pixel);
      Element* const to = dx + 2 * row * p.x_row + 2 * column * p.pixel;
      L::store(to, window.to(0));
      L::store(to + p.pixel, window.to(1));
      L::store(to + p.x_row, window.to(2));
      L::store(to + p.x_row + p.pixel, window.to(3));
    }
  }

  /// Four pixels, which lie in the windows at (row, column), to the right, below, and below to the right.
  template <class Element>
  static void backward_nines(const PoolPlane& p, std::int64_t row, std::int64_t windows, const Element* dy,
                             const std::uint8_t* indices, Element* dx) {
    if (windows == 0) return;
    const std::int64_t first = row * p.y_row;
    Given here = given(dy, indices, first);
    Given below = given(dy, indices, first + p.y_row);
    for (std::int64_t column = 0; column < windows; ++column) {
      const std::int64_t next = first + (column + 1) * p.pixel;
      const Given right = given(dy, indices, next);
      const Given corner = given(dy, indices, next + p.y_row);
      Element* const to = dx + 2 * row * p.x_row + 2 * column * p.pixel;
      L::store(to, here.to(4));
      L::store(to + p.pixel, here.to(5) + right.to(3));
      L::store(to + p.x_row, here.to(7) + below.to(1));
      L::store(to + p.x_row + p.pixel, here.to(8) + right.to(6) + below.to(2) + corner.to(0));
      here = right;
      below = corner;
    }
  }

  /// Pixels of a row from `first` on.
  template <class Element>
  static void gather(const PoolPlane& p, std::int64_t row, std::int64_t first, const Element* dy,
                     const std::uint8_t* indices, Element* dx) {
    const WindowsOver over(row, p.kernel_h, p.stride_h, p.padding_h, p.out_height);
    WindowsOver across(first, p.kernel_w, p.stride_w, p.padding_w, p.out_width);
    for (; across.at < p.width; across.next()) {
      Floats sum{};
      for (std::int64_t r = over.begin; r < over.end; ++r) {
        const std::int64_t in_rows = (row - r * p.stride_h + p.padding_h) * p.kernel_w;
        for (std::int64_t c = across.begin; c < across.end; ++c) {
          const std::int64_t place = in_rows + across.at - c * p.stride_w + p.padding_w;
          sum += given(dy, indices, r * p.y_row + c * p.pixel).to(static_cast<std::uint8_t>(place));
        }
      }
      L::store(dx + row * p.x_row + across.at * p.pixel, sum);
    }
  }

  /// Rows 2 `pair` and, if it is there, 2 `pair` + 1.
  template <Kind kind, class Element>
  static void backward_rows(const PoolPlane& p, std::int64_t pair, const Element* dy,
                            const std::uint8_t* indices, Element* dx) {
    std::int64_t done = 0;
    if constexpr (kind == Kind::quads) {
      done = pair < p.out_height ? p.out_width : 0;
      backward_quads(p, pair, done, dy, indices, dx);
    } else if constexpr (kind == Kind::nines) {
      done = pair + 1 < p.out_height ? p.out_width - 1 : 0;
      backward_nines(p, pair, done, dy, indices, dx);
    }
    for (std::int64_t row = 2 * pair; row < p.height && row < 2 * pair + 2; ++row)
      gather(p, row, 2 * done, dy, indices, dx);
  }
};

template <int size, class Element>
void forward(const PoolPlane& p, bool relu_mask, const Element* x, Element* y, std::uint8_t* indices) {
  for (std::int64_t row = 0; row < p.out_height; ++row) {
    for_lanes<IndexedPool>(p, [&](auto pool, std::int64_t at) {
      pool.template forward_row<size>(p, relu_mask, row, x + at, y + at, indices + at);
    });
  }
}

template <Kind kind, class Element>
void backward(const PoolPlane& p, const Element* dy, const std::uint8_t* indices, Element* dx) {
  for (std::int64_t pair = 0; 2 * pair < p.height; ++pair) {
    for_lanes<IndexedPool>(p, [&](auto pool, std::int64_t at) {
      pool.template backward_rows<kind>(p, pair, dy + at, indices + at, dx + at);
    });
  }
}

}  // namespace

void run(const MaxPool2dWithIndices& op, const PoolPlane& plane, const void* x, void* y,
         std::uint8_t* indices) {
  with_element(plane, [&]<class Element>(Element*) {
    const auto* const from = static_cast<const Element*>(x);
    auto* const to = static_cast<Element*>(y);
    const std::int64_t size = plane.kernel_h == plane.kernel_w ? plane.kernel_h : 0;
    const auto compute = size == 2   ? forward<2, Element>
                         : size == 3 ? forward<3, Element>
                                     : forward<0, Element>;
    compute(plane, op.relu_mask, from, to, indices);
  });
}

void run(const MaxPool2dWithIndicesBackward&, const PoolPlane& plane, const void* dy,
         const std::uint8_t* indices, void* dx) {
  with_element(plane, [&]<class Element>(Element*) {
    const Kind kind = kind_of(plane);
    const auto compute = kind == Kind::quads   ? backward<Kind::quads, Element>
                         : kind == Kind::nines ? backward<Kind::nines, Element>
                                               : backward<Kind::any, Element>;
    compute(plane, static_cast<const Element*>(dy), indices, static_cast<Element*>(dx));
  });
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
