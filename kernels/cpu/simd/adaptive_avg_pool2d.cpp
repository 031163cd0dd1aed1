#include "kernels/pool2d.h"

#include "kernels/cpu/simd/lanes.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

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

/// `visit(Lanes<16> or <1>, first lane)` for all lanes of a pixel.
template <class Visit>
inline void for_lanes(std::int64_t lanes, Visit visit) {
  std::int64_t lane = 0;
  for (; lane + 16 <= lanes; lane += 16) visit(Lanes<16>{}, lane);
  for (; lane < lanes; ++lane) visit(Lanes<1>{}, lane);
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
  for_lanes(p.lanes, [&]<class L>(L, std::int64_t lane) {
    typename L::Floats sum{};
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const Element* const from = x + row * p.x_row + lane;
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        sum += L::load(from + column * p.pixel);
      }
    }
    L::store(y + lane, sum / elements);
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

/// The gradient of an average over the whole plane: the same for all pixels.
template <class Element>
void spread(const PoolPlane& p, const Element* dy, Element* dx) {
  const auto elements = static_cast<float>(p.height * p.width);
  for_lanes(p.lanes, [&]<class L>(L, std::int64_t lane) {
    const auto share = L::load(dy + lane) / elements;
    for (std::int64_t row = 0; row < p.height; ++row) {
      Element* const to = dx + row * p.x_row + lane;
      for (std::int64_t column = 0; column < p.width; ++column) L::store(to + column * p.pixel, share);
    }
  });
}

template <class Element>
void backward_pixel(const PoolPlane& p, Range rows, Range columns, const Element* dy, Element* dx) {
  for_lanes(p.lanes, [&]<class L>(L, std::int64_t lane) {
    typename L::Floats sum{};
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const float elements =
            size(window(row, p.out_height, p.height)) * size(window(column, p.out_width, p.width));
        sum += L::load(dy + row * p.y_row + column * p.pixel + lane) / elements;
      }
    }
    L::store(dx + lane, sum);
  });
}

template <class Element>
void backward(const PoolPlane& p, const Element* dy, Element* dx) {
  if (p.out_height == 1 && p.out_width == 1) return spread(p, dy, dx);
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
  if (plane.dtype == DType::bf16)
    return backward(plane, static_cast<const Bf16*>(dy), static_cast<Bf16*>(dx));
  backward(plane, static_cast<const float*>(dy), static_cast<float*>(dx));
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
