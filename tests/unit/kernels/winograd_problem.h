#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/stream.h"
#include "tests/unit/kernels/reference.h"

/// What the tests of Winograd convolve, in which layouts, and what must come out.
namespace lockstep::kernels::test {

inline const Algorithm own = Algorithm::own_winograd;

struct Case {
  Shape x, w;
  Conv2dGeometry geometry;
};

/// Tiles that fill the picture and that do not, pictures smaller than a tile, every padding.
inline const std::vector<Case> cases = {
    {{2, 16, 8, 8}, {32, 16, 3, 3}, {.padding = {1, 1}}},
    {{3, 32, 7, 7}, {16, 32, 3, 3}, {.padding = {1, 1}}},
    {{2, 48, 5, 9}, {16, 48, 3, 3}, {.padding = {0, 0}}},
    {{5, 16, 1, 1}, {48, 16, 3, 3}, {.padding = {1, 1}}},
    {{1, 16, 3, 10}, {16, 16, 3, 3}, {.padding = {0, 2}}},
    {{2, 16, 4, 2}, {16, 16, 3, 3}, {.padding = {2, 1}}},
};

inline Layout blocked(const Shape& shape, std::int64_t block) {
  return {shape,
          {shape[1] * shape[2] * shape[3], shape[2] * shape[3] * block, shape[3] * block, block},
          {{1, block}}};
}

/// Pictures in channels-last (0) or in blocks of channels; weights in blocks of both, outputs innermost.
inline Layout picture_layout(const Shape& shape, std::int64_t block) {
  return block == 0 ? channels_last(shape) : blocked(shape, block);
}
inline Layout filter_layout(const Shape& shape, std::int64_t block) {
  if (block == 0) return channels_last(shape);
  const std::int64_t inner = block * block;
  return {shape, {shape[1] / block * 9 * inner, 9 * inner, 3 * inner, inner}, {{1, block}, {0, block}}};
}

inline double largest(const Values& values) {
  double most = 0;
  for (const double value : values.data) most = std::max(most, std::abs(value));
  return most;
}

/// The gradients by their definition.
inline Values gradient_of_x(const Values& dy, const Values& w, const Shape& x, const Conv2dGeometry& g) {
  Values flipped{{w.shape[1], w.shape[0], 3, 3}, std::vector<double>(w.data.size())};
  for (std::int64_t o = 0; o < w.shape[0]; ++o) {
    for (std::int64_t i = 0; i < w.shape[1]; ++i) {
      for (std::int64_t tap = 0; tap < 9; ++tap) {
        flipped.data[static_cast<std::size_t>((i * w.shape[0] + o) * 9 + 8 - tap)] =
            w.data[static_cast<std::size_t>((o * w.shape[1] + i) * 9 + tap)];
      }
    }
  }
  const Values dx = conv2d(dy, flipped, nullptr, {.padding = {2 - g.padding[0], 2 - g.padding[1]}});
  REQUIRE(dx.shape == x);
  return dx;
}

inline Values swapped(const Values& from) {
  Values to{{from.shape[1], from.shape[0], from.shape[2], from.shape[3]},
            std::vector<double>(from.data.size())};
  const std::int64_t plane = from.shape[2] * from.shape[3];
  for (std::int64_t a = 0; a < from.shape[0]; ++a) {
    for (std::int64_t b = 0; b < from.shape[1]; ++b) {
      const auto source = from.data.begin() + (a * from.shape[1] + b) * plane;
      std::copy(source, source + plane, to.data.begin() + (b * from.shape[0] + a) * plane);
    }
  }
  return to;
}

inline Values gradient_of_w(const Values& x, const Values& dy, const Conv2dGeometry& g) {
  return swapped(conv2d(swapped(x), swapped(dy), nullptr, {.padding = g.padding}));
}

struct Problem {
  Values x, w, b, y, dy;
};

inline Problem make_problem(const Case& c) {
  Problem p{random_values(c.x, 1), random_values(c.w, 2), random_values({c.w[0]}, 3), {}, {}};
  p.y = conv2d(p.x, p.w, &p.b, c.geometry);
  p.dy = random_values(p.y.shape, 4);
  return p;
}

template <class Op>
std::vector<Values> run_on(const Device& on, const Op& op, const KernelIo& io,
                           const std::vector<Values>& in) {
  return run_prepared(kernel_for(on, op, io), io, in);
}

inline KernelIo forward_io(const Problem& p, std::int64_t block) {
  KernelIo io = make_io({p.x, p.w, p.b}, {p.y.shape}, Layouts::chosen);
  io.inputs[0].layout = picture_layout(p.x.shape, block);
  io.inputs[1].layout = filter_layout(p.w.shape, block);
  io.outputs[0].layout = picture_layout(p.y.shape, block);
  return io;
}
inline KernelIo data_io(const Problem& p, std::int64_t block) {
  const KernelIo forward = forward_io(p, block);
  return {{forward.outputs[0], forward.inputs[1]}, {forward.inputs[0]}};
}
inline KernelIo weights_io(const Problem& p, std::int64_t block) {
  const KernelIo forward = forward_io(p, block);
  return {{forward.inputs[0], forward.outputs[0]}, {forward.inputs[1]}};
}

inline bool on_cpu() {
  return device().is_cpu();
}

}  // namespace lockstep::kernels::test
