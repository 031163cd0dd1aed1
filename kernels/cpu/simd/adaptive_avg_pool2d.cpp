#include "kernels/pool2d.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// Lanes at a time, so that their sums stay in the first cache.
constexpr std::int64_t block = 64;

struct Range {
  std::int64_t begin, end;
};

/// PyTorch's window at `index` of `windows` over `extent` elements. With extent and windows exchanged: the
/// windows that hold an element.
inline Range window(std::int64_t index, std::int64_t windows, std::int64_t extent) {
  return {index * extent / windows, ((index + 1) * extent + windows - 1) / windows};
}

inline float size(Range range) {
  return static_cast<float>(range.end - range.begin);
}

/// `visit(first lane, lanes)` for each block of a pixel's lanes.
template <class Visit>
inline void for_each_block(std::int64_t lanes, Visit visit) {
  for (std::int64_t first = 0; first < lanes; first += block) {
    visit(first, lanes - first < block ? lanes - first : block);
  }
}

/// A plane of one channel, whose rows lie without gaps.
template <class Element>
float sum_of_window(const PoolPlane& p, Range rows, Range columns, const Element* x) {
  float sum = 0;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
#pragma omp simd reduction(+ : sum)
    for (std::int64_t column = columns.begin; column < columns.end; ++column) {
      sum += load(x + row * p.x_row + column);
    }
  }
  return sum;
}

template <class Element>
void average_window(const PoolPlane& p, Range rows, Range columns, const Element* x, Element* y) {
  const float elements = size(rows) * size(columns);
  if (p.lanes == 1 && p.pixel == 1) return store(y, sum_of_window(p, rows, columns, x) / elements);
  for_each_block(p.lanes, [&](std::int64_t first, std::int64_t lanes) {
    float sums[block] = {};
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const Element* const pixel = x + row * p.x_row + column * p.pixel + first;
#pragma omp simd
        for (std::int64_t i = 0; i < lanes; ++i) sums[i] += load(pixel + i);
      }
    }
#pragma omp simd
    for (std::int64_t i = 0; i < lanes; ++i) store(y + first + i, sums[i] / elements);
  });
}

template <class Element>
void forward(const PoolPlane& p, const Element* x, Element* y) {
  for (std::int64_t row = 0; row < p.out_height; ++row) {
    for (std::int64_t column = 0; column < p.out_width; ++column) {
      average_window(p, window(row, p.out_height, p.height), window(column, p.out_width, p.width), x,
                     y + row * p.y_row + column * p.pixel);
    }
  }
}

template <class Element>
void backward_pixel(const PoolPlane& p, Range rows, Range columns, const Element* dy, Element* dx) {
  for_each_block(p.lanes, [&](std::int64_t first, std::int64_t lanes) {
    float sums[block] = {};
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const float elements =
            size(window(row, p.out_height, p.height)) * size(window(column, p.out_width, p.width));
        const Element* const gradient = dy + row * p.y_row + column * p.pixel + first;
#pragma omp simd
        for (std::int64_t i = 0; i < lanes; ++i) sums[i] += load(gradient + i) / elements;
      }
    }
#pragma omp simd
    for (std::int64_t i = 0; i < lanes; ++i) store(dx + first + i, sums[i]);
  });
}

template <class Element>
void backward(const PoolPlane& p, const Element* dy, Element* dx) {
  for (std::int64_t row = 0; row < p.height; ++row) {
    for (std::int64_t column = 0; column < p.width; ++column) {
      backward_pixel(p, window(row, p.height, p.out_height), window(column, p.width, p.out_width), dy,
                     dx + row * p.x_row + column * p.pixel);
    }
  }
}

}  // namespace

void run(const AdaptiveAvgPool2d&, const PoolPlane& plane, const void* x, void* y) {
  if (plane.dtype == DType::bf16) return forward(plane, static_cast<const Bf16*>(x), static_cast<Bf16*>(y));
  forward(plane, static_cast<const float*>(x), static_cast<float*>(y));
}

void run(const AdaptiveAvgPool2dBackward&, const PoolPlane& plane, const void* dy, void* dx) {
  if (plane.dtype == DType::bf16) return backward(plane, static_cast<const Bf16*>(dy), static_cast<Bf16*>(dx));
  backward(plane, static_cast<const float*>(dy), static_cast<float*>(dx));
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
