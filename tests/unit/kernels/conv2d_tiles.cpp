#include "kernels/cpu/conv2d_tiles.h"

#include <cmath>

#include "tests/support/skip.h"
#include "tests/unit/kernels/tile_sums.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

struct Problem {
  Shape x, w;
  Conv2dGeometry geometry;

  Shape y() const {
    return {x[0], w[0], geometry.output_extent(x[2], w[2], 0), geometry.output_extent(x[3], w[3], 1)};
  }
  std::string str() const { return x.str() + " by " + w.str(); }
};

std::size_t place(const Shape& shape, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return static_cast<std::size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d);
}

/// `term(y, x, w)`: places of three factors that meet.
template <class Term>
void for_terms(const Problem& p, const Term& term) {
  const Shape y = p.y();
  const Conv2dGeometry& g = p.geometry;
  for (std::int64_t n = 0; n < y[0]; ++n) {
    for (std::int64_t o = 0; o < y[1]; ++o) {
      for (std::int64_t i = 0; i < y[2] * y[3] * p.w[2] * p.w[3]; ++i) {
        const std::int64_t kh = i % p.w[2];
        const std::int64_t kw = i / p.w[2] % p.w[3];
        const std::int64_t row = i / (p.w[2] * p.w[3]) % y[2];
        const std::int64_t column = i / (p.w[2] * p.w[3] * y[2]);
        const std::int64_t h = row * g.stride[0] + kh * g.dilation[0] - g.padding[0];
        const std::int64_t w = column * g.stride[1] + kw * g.dilation[1] - g.padding[1];
        if (h < 0 || h >= p.x[2] || w < 0 || w >= p.x[3]) continue;
        for (std::int64_t c = 0; c < p.x[1]; ++c) {
          term(place(y, n, o, row, column), place(p.x, n, c, h, w), place(p.w, o, c, kh, kw));
        }
      }
    }
  }
}

/// Of `shape`, each sum of so many terms at most.
Wanted no_sums(const Shape& shape, std::int64_t terms) {
  const std::vector<double> zeros(static_cast<std::size_t>(shape.elements()));
  return {{shape, zeros}, {shape, zeros}, terms};
}

void add(Wanted& to, std::size_t at, double product) {
  to.sums.data[at] += product;
  to.magnitudes.data[at] += std::fabs(product);
}

/// As the library has filters for AMX: in squares of 32 inputs by `panel` outputs, or of few inputs.
Layout filter_layout(const Shape& w, std::int64_t panel) {
  if (w[1] % 32 != 0) return {w, {w[1] * w[2] * w[3] * 16, 16, w[3] * w[1] * 16, w[1] * 16}, {{0, 16}}};
  const std::int64_t square = 32 * panel;
  const Shape padded{(w[0] + panel - 1) / panel * panel, w[1], w[2], w[3]};
  const std::int64_t row = w[3] * w[1] * panel;
  return {padded, {w[2] * row, square, row, w[1] * panel}, {{1, 16}, {0, panel}, {1, 2}}};
}

std::vector<std::int64_t> panels_of(const Problem& p) {
  return p.w[0] % 64 == 0 ? std::vector<std::int64_t>{32, 64} : std::vector<std::int64_t>{32};
}

template <class Op>
Values run_tiles(const Op& op, const KernelIo& io, const std::vector<Values>& inputs, int threads) {
  return with_threads(threads, [&] { return run_prepared(tile_kernel(op, io), io, inputs)[0]; });
}

/// The sums, and the same bits on any number of threads.
template <class Op>
void check_tiles(const Op& op, const KernelIo& io, const std::vector<Values>& inputs, const Wanted& wanted,
                 double unit) {
  REQUIRE(can_use_tiles(op, io));
  const Values alone = run_tiles(op, io, inputs, 1);
  require_sums(alone, wanted, unit);
  for (const int threads : {2, 5}) CHECK(run_tiles(op, io, inputs, threads).data == alone.data);
}

KernelIo weights_io(const Problem& p, std::int64_t panel) {
  return {{{DType::bf16, p.x, channels_last(p.x)}, {DType::bf16, p.y(), channels_last(p.y())}},
          {{DType::f32, p.w, filter_layout(p.w, panel)}}};
}

KernelIo data_io(const Problem& p, std::int64_t panel) {
  return {{{DType::bf16, p.y(), channels_last(p.y())}, {DType::bf16, p.w, filter_layout(p.w, panel)}},
          {{DType::bf16, p.x, channels_last(p.x)}}};
}

KernelIo forward_io(const Problem& p, std::int64_t panel) {
  return {{{DType::bf16, p.x, channels_last(p.x)}, {DType::bf16, p.w, filter_layout(p.w, panel)}},
          {{DType::bf16, p.y(), channels_last(p.y())}}};
}

/// Odd extents, filters wider than what they meet, strides that leave pixels out, no padding; several chunks.
const std::vector<Problem> problems{
    {{1, 32, 1, 1}, {32, 32, 1, 1}, {}},
    {{2, 32, 5, 7}, {32, 32, 3, 3}, {.padding = {1, 1}}},
    {{3, 64, 7, 6}, {96, 64, 3, 3}, {.padding = {1, 1}}},
    {{2, 32, 9, 8}, {64, 32, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {{2, 32, 8, 9}, {32, 32, 2, 4}, {.stride = {1, 3}, .padding = {0, 2}}},
    {{2, 32, 4, 3}, {32, 32, 5, 5}, {.padding = {2, 2}}},
    {{1, 32, 9, 9}, {32, 32, 3, 3}, {.padding = {2, 2}, .dilation = {2, 2}}},
    {{2, 32, 10, 10}, {32, 32, 3, 3}, {.stride = {2, 2}, .padding = {2, 2}, .dilation = {3, 3}}},
    {{2, 32, 7, 7}, {64, 32, 1, 1}, {.stride = {2, 2}}},
    {{5, 32, 23, 19}, {32, 32, 3, 3}, {.padding = {1, 1}}},
    {{2, 32, 41, 40}, {64, 32, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {{2, 32, 5, 5}, {288, 32, 3, 3}, {.padding = {1, 1}}},  // more outputs than one after another
};

/// Of few inputs.
const std::vector<Problem> narrow_problems{
    {{2, 3, 17, 14}, {32, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}},
    {{2, 3, 6, 9}, {64, 3, 3, 3}, {.padding = {1, 1}}},
    {{3, 1, 8, 8}, {32, 1, 5, 5}, {}},
    {{2, 4, 11, 9}, {32, 4, 4, 2}, {.stride = {1, 3}, .padding = {1, 0}}},
    {{3, 3, 61, 64}, {32, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}},
    {{3, 3, 32, 32}, {16, 3, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {{2, 3, 6, 9}, {48, 3, 3, 3}, {.padding = {1, 1}}},
};

void check_weights(const Problem& p, std::int64_t panel) {
  INFO(p.str() << ", panels of " << panel);
  const Values x = numbers(p.x, 1);
  const Values dy = numbers(p.y(), 3);
  const KernelIo io = weights_io(p, panel);
  Wanted wanted = no_sums(p.w, p.y().elements() / p.y()[1]);
  for_terms(
      p, [&](std::size_t y, std::size_t at_x, std::size_t w) { add(wanted, w, dy.data[y] * x.data[at_x]); });
  check_tiles(Conv2dBackwardWeights{p.geometry}, io, {x, dy}, wanted, 0);
}

}  // namespace

TEST_CASE("weight gradients of convolutions by tiles") {
  if (!computes_tiles()) return tests::skip("this CPU has no AMX");
  for (const Problem& p : problems) {
    for (const std::int64_t panel : panels_of(p)) check_weights(p, panel);
  }
}

TEST_CASE("weight gradients of convolutions of few inputs by tiles") {
  if (!computes_tiles()) return tests::skip("this CPU has no AMX");
  for (const Problem& p : narrow_problems) check_weights(p, 16);
}

TEST_CASE("data gradients of convolutions by tiles") {
  if (!computes_tiles()) return tests::skip("this CPU has no AMX");
  for (const Problem& p : problems) {
    for (const std::int64_t panel : panels_of(p)) {
      INFO(p.str() << ", panels of " << panel);
      const Values dy = numbers(p.y(), 1);
      const Values w = numbers(p.w, 2);
      const KernelIo io = data_io(p, panel);
      Wanted wanted = no_sums(p.x, p.w.elements() / p.w[1]);
      for_terms(p, [&](std::size_t y, std::size_t x, std::size_t at_w) {
        add(wanted, x, dy.data[y] * w.data[at_w]);
      });
      check_tiles(Conv2dBackwardData{p.geometry}, io, {dy, w}, wanted, 0x1p-8);
    }
  }
}

TEST_CASE("convolutions by tiles") {
  if (!computes_tiles()) return tests::skip("this CPU has no AMX");
  for (const Problem& p : problems) {
    for (const std::int64_t panel : panels_of(p)) {
      INFO(p.str() << ", panels of " << panel);
      const Values x = numbers(p.x, 1);
      const Values w = numbers(p.w, 2);
      const KernelIo io = forward_io(p, panel);
      Wanted wanted = no_sums(p.y(), p.w.elements() / p.w[0]);
      for_terms(p, [&](std::size_t y, std::size_t at_x, std::size_t at_w) {
        add(wanted, y, x.data[at_x] * w.data[at_w]);
      });
      check_tiles(Conv2d{p.geometry}, io, {x, w}, wanted, 0x1p-8);
    }
  }
}

TEST_CASE("convolutions in bf16 are computed by tiles where these are faster") {
  if (!computes_tiles()) return tests::skip("this CPU has no AMX");
  const Problem small{{2, 32, 7, 7}, {32, 32, 3, 3}, {.padding = {1, 1}}};
  const Problem large{{2, 32, 28, 28}, {32, 32, 3, 3}, {.padding = {1, 1}}};
  const Problem strided{{2, 32, 28, 28}, {32, 32, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}};
  const Problem deep{{2, 32, 7, 7}, {128, 32, 3, 3}, {.padding = {1, 1}}};
  CHECK(takes_tiles(Conv2d{deep.geometry}, forward_io(deep, 64)));
  CHECK(!takes_tiles(Conv2d{small.geometry}, forward_io(small, 32)));
  CHECK(!takes_tiles(Conv2d{large.geometry}, forward_io(large, 32)));
  CHECK(!takes_tiles(Conv2d{deep.geometry, Activation::relu}, forward_io(deep, 64)));
  CHECK(takes_tiles(Conv2dBackwardData{small.geometry}, data_io(small, 32)));
  CHECK(!takes_tiles(Conv2dBackwardData{large.geometry}, data_io(large, 32)));
  CHECK(takes_tiles(Conv2dBackwardData{strided.geometry}, data_io(strided, 32)));
  KernelIo io = weights_io(large, 32);
  CHECK(can_use_tiles(Conv2dBackwardWeights{large.geometry}, io));
  io.outputs[0].layout = Layout::row_major(large.w);
  CHECK(!can_use_tiles(Conv2dBackwardWeights{large.geometry}, io));
  const Problem odd{{2, 24, 7, 7}, {32, 24, 3, 3}, {.padding = {1, 1}}};
  io = weights_io(odd, 32);
  CHECK(!can_use_tiles(Conv2dBackwardWeights{odd.geometry}, io));
}
