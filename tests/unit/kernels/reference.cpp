#include "tests/unit/kernels/reference.h"

#include <algorithm>
#include <limits>

namespace lockstep::kernels::test {
namespace {

std::size_t at(const Shape& s, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return static_cast<std::size_t>(((n * s[1] + c) * s[2] + h) * s[3] + w);
}

Values zeros(const Shape& shape) {
  return {shape, std::vector<double>(static_cast<std::size_t>(shape.elements()))};
}

/// `visit(value, inside)` for each element of the window that gives pixel (row, column).
template <class Visit>
void window(const Values& x, const Pool2dGeometry& g, std::int64_t n, std::int64_t c, std::int64_t row,
            std::int64_t column, const Visit& visit) {
  for (std::int64_t i = 0; i < g.kernel[0]; ++i) {
    for (std::int64_t j = 0; j < g.kernel[1]; ++j) {
      const std::int64_t h = row * g.stride[0] - g.padding[0] + i;
      const std::int64_t w = column * g.stride[1] - g.padding[1] + j;
      if (h >= 0 && h < x.shape[2] && w >= 0 && w < x.shape[3]) visit(x.data[at(x.shape, n, c, h, w)]);
    }
  }
}

template <class Pool>
Values pooled(const Values& x, const Pool2dGeometry& g, const Pool& pool) {
  Shape shape = x.shape;
  for (std::size_t a = 0; a < 2; ++a) {
    shape[a + 2] = (x.shape[a + 2] + 2 * g.padding[a] - g.kernel[a]) / g.stride[a] + 1;
  }
  Values y = zeros(shape);
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      for (std::int64_t h = 0; h < shape[2]; ++h) {
        for (std::int64_t w = 0; w < shape[3]; ++w) y.data[at(shape, n, c, h, w)] = pool(n, c, h, w);
      }
    }
  }
  return y;
}

}  // namespace

Values conv2d(const Values& x, const Values& w, const Values* b, const Conv2dGeometry& g) {
  const auto extent = [&](std::size_t a) {
    return (x.shape[a + 2] + 2 * g.padding[a] - g.dilation[a] * (w.shape[a + 2] - 1) - 1) / g.stride[a] + 1;
  };
  Values y = zeros({x.shape[0], w.shape[0], extent(0), extent(1)});
  const std::int64_t outputs = w.shape[0] / g.groups;
  for (std::int64_t n = 0; n < y.shape[0]; ++n) {
    for (std::int64_t o = 0; o < y.shape[1]; ++o) {
      for (std::int64_t row = 0; row < y.shape[2]; ++row) {
        for (std::int64_t column = 0; column < y.shape[3]; ++column) {
          double sum = b != nullptr ? b->data[static_cast<std::size_t>(o)] : 0;
          for (std::int64_t c = 0; c < w.shape[1]; ++c) {
            for (std::int64_t i = 0; i < w.shape[2]; ++i) {
              for (std::int64_t j = 0; j < w.shape[3]; ++j) {
                const std::int64_t h = row * g.stride[0] - g.padding[0] + i * g.dilation[0];
                const std::int64_t v = column * g.stride[1] - g.padding[1] + j * g.dilation[1];
                if (h < 0 || h >= x.shape[2] || v < 0 || v >= x.shape[3]) continue;
                sum += w.data[at(w.shape, o, c, i, j)] *
                       x.data[at(x.shape, n, o / outputs * w.shape[1] + c, h, v)];
              }
            }
          }
          y.data[at(y.shape, n, o, row, column)] = sum;
        }
      }
    }
  }
  return y;
}

Values linear(const Values& x, const Values& w, const Values* b) {
  const auto features = static_cast<std::size_t>(x.shape.elements(1));
  const auto outputs = static_cast<std::size_t>(w.shape[0]);
  Values y = zeros({x.shape[0], w.shape[0]});
  for (std::size_t i = 0; i < y.data.size(); ++i) {
    const std::size_t row = i / outputs;
    const std::size_t out = i % outputs;
    y.data[i] = b != nullptr ? b->data[out] : 0;
    for (std::size_t k = 0; k < features; ++k)
      y.data[i] += x.data[row * features + k] * w.data[out * features + k];
  }
  return y;
}

Values relu(Values x) {
  for (double& value : x.data) value = std::max(value, 0.0);
  return x;
}

Values max_pool2d(const Values& x, const Pool2dGeometry& g) {
  return pooled(x, g, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    double best = -std::numeric_limits<double>::infinity();
    window(x, g, n, c, h, w, [&](double value) { best = std::max(best, value); });
    return best;
  });
}

Values avg_pool2d(const Values& x, const Pool2dGeometry& g) {
  return pooled(x, g, [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    double sum = 0;
    window(x, g, n, c, h, w, [&](double value) { sum += value; });
    return sum / static_cast<double>(g.kernel[0] * g.kernel[1]);
  });
}

}  // namespace lockstep::kernels::test
