#include "kernels/cpu/loops/isa.h"

namespace lockstep::kernels::loops::LOCKSTEP_ISA {
namespace {

/// The part of an output pixel's window that lies inside the input.
struct Window {
  std::int64_t top, bottom, left, right;
};

inline std::int64_t inside(std::int64_t at, std::int64_t extent) {
  return at < 0 ? 0 : at > extent ? extent : at;
}

inline Window window_at(const PoolPlane& p, std::int64_t row, std::int64_t column) {
  const std::int64_t top = row * p.stride_h - p.padding_h;
  const std::int64_t left = column * p.stride_w - p.padding_w;
  return {inside(top, p.height), inside(top + p.kernel_h, p.height), inside(left, p.width),
          inside(left + p.kernel_w, p.width)};
}

/// `visit(window, offset in y)` for each output pixel.
template <class Visit>
inline void for_each_window(const PoolPlane& p, Visit visit) {
  for (std::int64_t row = 0; row < p.out_height; ++row) {
    for (std::int64_t column = 0; column < p.out_width; ++column) {
      visit(window_at(p, row, column), row * p.y_row + column * p.pixel);
    }
  }
}

/// `visit(offset in x)` for each pixel of a window, row by row.
template <class Visit>
inline void for_each_pixel(const PoolPlane& p, const Window& w, Visit visit) {
  for (std::int64_t row = w.top; row < w.bottom; ++row) {
    for (std::int64_t column = w.left; column < w.right; ++column) visit(row * p.x_row + column * p.pixel);
  }
}

void clear_plane(const PoolPlane& p, float* dx) {
  for (std::int64_t row = 0; row < p.height; ++row) {
    for (std::int64_t column = 0; column < p.width; ++column) {
      for (std::int64_t lane = 0; lane < p.lanes; ++lane) dx[row * p.x_row + column * p.pixel + lane] = 0;
    }
  }
}

/// PyTorch's rule: greater wins, the first of equals stays, a NaN always wins.
inline bool replaces(float value, float best) {
  return (value > best) | (value != value);
}

/// Planes are worked on in groups of `width` lanes, whose running values stay in registers.
template <int width>
struct Lanes {
  static void max_forward(const PoolPlane& p, const float* x, float* y) {
    for_each_window(p, [&](const Window& w, std::int64_t at) {
      float best[width];
      for (int l = 0; l < width; ++l) best[l] = -__builtin_inff();
      for_each_pixel(p, w, [&](std::int64_t pixel) {
        for (int l = 0; l < width; ++l) best[l] = replaces(x[pixel + l], best[l]) ? x[pixel + l] : best[l];
      });
      for (int l = 0; l < width; ++l) y[at + l] = best[l];
    });
  }

  static void max_backward(const PoolPlane& p, bool relu_mask, const float* x, const float* dy, float* dx) {
    const float threshold = relu_mask ? 0.0F : -__builtin_inff();
    for_each_window(p, [&](const Window& w, std::int64_t at) {
      float best[width];
      std::int32_t winner[width];
      for (int l = 0; l < width; ++l) best[l] = -__builtin_inff();
      for (int l = 0; l < width; ++l) winner[l] = 0;
      std::int32_t position = 0;
      for_each_pixel(p, w, [&](std::int64_t pixel) {
        for (int l = 0; l < width; ++l) {
          const bool better = replaces(x[pixel + l], best[l]);
          best[l] = better ? x[pixel + l] : best[l];
          winner[l] = better ? position : winner[l];
        }
        ++position;
      });
      float gradient[width];
      for (int l = 0; l < width; ++l) gradient[l] = best[l] <= threshold && relu_mask ? 0.0F : dy[at + l];
      position = 0;
      for_each_pixel(p, w, [&](std::int64_t pixel) {
        for (int l = 0; l < width; ++l) dx[pixel + l] += winner[l] == position ? gradient[l] : 0.0F;
        ++position;
      });
    });
  }

  static void avg_forward(const PoolPlane& p, const float* x, float* y) {
    const auto size = static_cast<float>(p.kernel_h * p.kernel_w);
    for_each_window(p, [&](const Window& w, std::int64_t at) {
      float sum[width];
      for (int l = 0; l < width; ++l) sum[l] = 0;
      for_each_pixel(p, w, [&](std::int64_t pixel) {
        for (int l = 0; l < width; ++l) sum[l] += x[pixel + l];
      });
      for (int l = 0; l < width; ++l) y[at + l] = sum[l] / size;
    });
  }

  static void avg_backward(const PoolPlane& p, const float* dy, float* dx) {
    const auto size = static_cast<float>(p.kernel_h * p.kernel_w);
    for_each_window(p, [&](const Window& w, std::int64_t at) {
      for_each_pixel(p, w, [&](std::int64_t pixel) {
        for (int l = 0; l < width; ++l) dx[pixel + l] += dy[at + l] / size;
      });
    });
  }
};

/// Calls `visit` with Lanes<16>, <8> or <1> and the first lane until all lanes are done.
template <class Visit>
inline void for_lanes(const PoolPlane& p, Visit visit) {
  std::int64_t lane = 0;
  for (; lane + 16 <= p.lanes; lane += 16) visit(Lanes<16>{}, lane);
  for (; lane + 8 <= p.lanes; lane += 8) visit(Lanes<8>{}, lane);
  for (; lane < p.lanes; ++lane) visit(Lanes<1>{}, lane);
}

}  // namespace

void max_pool(const PoolPlane& plane, const float* x, float* y) {
  for_lanes(plane, [&](auto lanes, std::int64_t at) { lanes.max_forward(plane, x + at, y + at); });
}

void max_pool_backward(const PoolPlane& plane, bool relu_mask, const float* x, const float* dy, float* dx) {
  clear_plane(plane, dx);
  for_lanes(plane, [&](auto lanes, std::int64_t at) {
    lanes.max_backward(plane, relu_mask, x + at, dy + at, dx + at);
  });
}

void avg_pool(const PoolPlane& plane, const float* x, float* y) {
  for_lanes(plane, [&](auto lanes, std::int64_t at) { lanes.avg_forward(plane, x + at, y + at); });
}

void avg_pool_backward(const PoolPlane& plane, const float* dy, float* dx) {
  clear_plane(plane, dx);
  for_lanes(plane, [&](auto lanes, std::int64_t at) { lanes.avg_backward(plane, dy + at, dx + at); });
}

}  // namespace lockstep::kernels::loops::LOCKSTEP_ISA
