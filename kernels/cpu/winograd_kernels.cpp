#include "kernels/cpu/winograd_conv2d.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/base/division.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/matmul.h"
#include "kernels/winograd_conv2d.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t panel = WinogradTiles::panel;

/// Elements of a transform.
constexpr std::int64_t positions(DType factors) {
  const std::int64_t window = winograd_extent(factors) + 2;
  return window * window;
}

/// Factors in a word.
constexpr std::int64_t per_word(DType factors) {
  return factors == DType::bf16 ? 2 : 1;
}

/// Tiles that hold y, of pictures of x or y.
WinogradTiles tiles_of(const TensorDesc& pictures, const Shape& y, DType factors) {
  const std::int64_t extent = winograd_extent(factors);
  return {.dtype = pictures.dtype,
          .factors = factors,
          .height = pictures.shape[2],
          .width = pictures.shape[3],
          .rows = parts_of(y[2], extent),
          .columns = parts_of(y[3], extent),
          .planes = *winograd_planes(pictures)};
}

/// Matrices of transforms of pictures or of filters, of `width` words in a panel's row. Panels and positions
/// begin in different cache lines of a page, or the elements of a transform would share a few lines of the
/// cache.
struct Matrices {
  std::int64_t positions, rows, panels;
  std::int64_t width = panel;

  WinogradMatrices strides() const {
    const std::int64_t of_panel = odd_lines(rows * width);
    return {panels * of_panel + cache_line_floats, of_panel};
  }
  std::int64_t words() const { return positions * strides().position; }
};

/// A part of all tiles, whose transforms stay in the cache.
struct Blocks {
  std::int64_t tiles, size;

  Blocks(std::int64_t all, std::int64_t channels, DType factors) : tiles(all), size(0) {
    constexpr std::int64_t words = 1 << 22;
    const std::int64_t most =
        std::clamp<std::int64_t>(words * per_word(factors) / (positions(factors) * channels), 48, 144);
    constexpr std::int64_t rows = 12;  // that a product takes at once, or half of them
    size = rounded_up(parts_of(tiles, parts_of(tiles, most)), rows);
  }

  template <class Body>
  void for_each(const Body& body) const {
    for (std::int64_t first = 0; first < tiles; first += size) body(first, std::min(tiles, first + size));
  }
};

/// Calls `kernel` for tiles [first, end) on the team, `at_once` of them inseparable.
template <class Kernel>
void over_tiles(std::int64_t first, std::int64_t end, const Matrices& to, std::int64_t at_once,
                const Kernel& kernel) {
  parallel_ranges(end - first, (end - first) * to.panels * panel * to.positions, at_once,
                  [&](std::int64_t from, std::int64_t until) {
                    kernel(WinogradRange{first + from, first + until, first, 0, to.panels, to.strides()});
                  });
}

/// A matrix for each position, in memory.
struct Operand {
  float* data;
  WinogradMatrices strides;
};

/// One product for each position, shared out by positions and panels of columns.
void multiply(WinogradProduct product, const Operand& a, const Operand& b, const Operand& c) {
  const auto kernel = simd::best<WinogradProduct>();
  const std::int64_t panels = product.panels;
  product.a_panel = a.strides.panel;
  product.b_panel = b.strides.panel;
  product.c_panel = c.strides.panel;
  const std::int64_t count = positions(product.factors);
  const std::int64_t work = count * panels * panel * product.rows * product.depth;
  parallel_ranges(count * panels, work, 1, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t position = begin / panels;
      const std::int64_t first = begin % panels;
      WinogradProduct part = product;
      part.panels = std::min(panels - first, end - begin);
      kernel(part, a.data + position * a.strides.position,
             b.data + position * b.strides.position + first * b.strides.panel,
             c.data + position * c.strides.position + first * c.strides.panel);
      begin += part.panels;
    }
  });
}

/// Offsets of the elements along one axis.
std::vector<std::int64_t> offsets(const TensorDesc& w, std::size_t axis) {
  const Layout layout = w.layout_or_row_major();
  std::vector<std::int64_t> all;
  Shape index(std::vector<std::int64_t>(w.shape.rank(), 0));
  for (std::int64_t i = 0; i < w.shape[axis]; ++i) {
    index[axis] = i;
    all.push_back(layout.offset(index));
  }
  return all;
}

/// Filters as the kernels find them: `outputs` is the axis of those that make the columns of products.
struct Filters {
  DType dtype;
  std::vector<std::int64_t> outputs, inputs;
  std::int64_t row, column, first;

  Filters(const TensorDesc& w, std::size_t output_axis, bool backwards)
      : dtype(w.dtype),
        outputs(offsets(w, output_axis)),
        inputs(offsets(w, 1 - output_axis)),
        row(offsets(w, 2)[1]),
        column(offsets(w, 3)[1]),
        first(0) {
    if (!backwards) return;
    first = 2 * (row + column);
    row = -row;
    column = -column;
  }

  WinogradFilters range(std::int64_t first_output, std::int64_t end_output, std::int64_t first_input,
                        std::int64_t end_input) const {
    return {dtype,        outputs.data(), inputs.data(), row,      column,
            first_output, end_output,     first_input,   end_input};
  }
};

/// x by filters to y, or dy by filters that are read backwards to dx.
class Convolution {
 public:
  Convolution(const TensorDesc& x, const TensorDesc& y, Filters filters, std::array<std::int64_t, 2> padding,
              Activation activation)
      : factors_(winograd_factors(x.dtype)),
        input_{tiles_of(x, y.shape, factors_), false, false, padding},
        output_{tiles_of(y, y.shape, factors_), activation},
        filters_(std::move(filters)),
        blocks_(x.shape[0] * input_.tiles.rows * input_.tiles.columns, x.shape[1] + y.shape[1], factors_),
        weights_{positions(factors_), x.shape[1] / per_word(factors_), y.shape[1] / panel},
        in_{positions(factors_), blocks_.size, x.shape[1] / panel, panel / per_word(factors_)},
        out_{positions(factors_), blocks_.size, y.shape[1] / panel} {}

  std::size_t workspace() const {
    return static_cast<std::size_t>(weights_.words() + in_.words() + out_.words()) * sizeof(float);
  }

  void run(const void* x, const char* w, const void* b, void* y, float* workspace) const {
    float* const u = workspace;
    float* const v = u + weights_.words();
    float* const m = v + in_.words();
    transform_weights(w, u);
    blocks_.for_each([&](std::int64_t first, std::int64_t end) {
      over_tiles(first, end, in_, 1,
                 [&](const WinogradRange& range) { simd::best<WinogradInput>()(input_, range, x, v); });
      multiply({.factors = factors_, .rows = end - first, .depth = weights_.rows, .panels = out_.panels},
               {v, in_.strides()}, {u, weights_.strides()}, {m, out_.strides()});
      over_tiles(first, end, out_, 1,
                 [&](const WinogradRange& range) { simd::best<WinogradOutput>()(output_, range, m, b, y); });
    });
  }

 private:
  void transform_weights(const char* w, float* u) const {
    const WinogradWeights op{factors_, weights_.strides()};
    const std::int64_t inputs = weights_.rows * per_word(factors_);
    parallel_ranges(weights_.panels, weights_.words(), 1, [&](std::int64_t begin, std::int64_t end) {
      simd::best<WinogradWeights>()(op, filters_.range(begin * panel, end * panel, 0, inputs),
                                    w + filters_.first * static_cast<std::int64_t>(size_of(filters_.dtype)),
                                    u);
    });
  }

  DType factors_;
  WinogradInput input_;
  WinogradOutput output_;
  Filters filters_;
  Blocks blocks_;
  Matrices weights_, in_, out_;
};

class WeightGradients {
 public:
  WeightGradients(const TensorDesc& x, const TensorDesc& dy, const TensorDesc& dw,
                  std::array<std::int64_t, 2> padding)
      : factors_(winograd_factors(x.dtype)),
        input_{tiles_of(x, dy.shape, factors_), false, true, padding},
        gradient_{tiles_of(dy, dy.shape, factors_), true, true, {0, 0}},
        filters_(dw, 0, false),
        blocks_(x.shape[0] * input_.tiles.rows * input_.tiles.columns, x.shape[1] + dy.shape[1], factors_),
        weights_{positions(factors_), x.shape[1], dy.shape[1] / panel},
        in_{positions(factors_), blocks_.size / per_word(factors_), x.shape[1] / panel},
        out_{positions(factors_), blocks_.size / per_word(factors_), dy.shape[1] / panel} {}

  std::size_t workspace() const {
    return static_cast<std::size_t>(weights_.words() + in_.words() + out_.words()) * sizeof(float);
  }

  void run(const void* x, const void* dy, void* dw, float* workspace) const {
    const std::int64_t at_once = per_word(factors_);
    float* const u = workspace;
    float* const v = u + weights_.words();
    float* const m = v + in_.words();
    blocks_.for_each([&](std::int64_t first, std::int64_t end) {
      over_tiles(first, end, in_, at_once,
                 [&](const WinogradRange& range) { simd::best<WinogradInput>()(input_, range, x, v); });
      over_tiles(first, end, out_, at_once,
                 [&](const WinogradRange& range) { simd::best<WinogradInput>()(gradient_, range, dy, m); });
      multiply({.factors = factors_,
                .rows = weights_.rows,
                .depth = parts_of(end - first, at_once),
                .panels = out_.panels,
                .transposes = true,
                .accumulates = first > 0},
               {v, in_.strides()}, {m, out_.strides()}, {u, weights_.strides()});
    });
    const WinogradWeightGradients op{factors_, weights_.strides()};
    parallel_ranges(weights_.panels, weights_.words(), 1, [&](std::int64_t begin, std::int64_t end) {
      simd::best<WinogradWeightGradients>()(op, filters_.range(begin * panel, end * panel, 0, weights_.rows),
                                            u, dw);
    });
  }

 private:
  DType factors_;
  WinogradInput input_, gradient_;
  Filters filters_;
  Blocks blocks_;
  Matrices weights_, in_, out_;
};

/// Calls `run(work, addresses)`; `work` is a Convolution or WeightGradients.
template <class Work, class Run>
KernelPtr kernel_of(const KernelIo& io, Work work, Run run) {
  const std::size_t workspace = work.workspace();
  return cpu_kernel(
      io, [work = std::move(work), run](const Addresses& a) { run(work, a); }, workspace);
}

}  // namespace

template <>
KernelPtr winograd_kernel(const Conv2d& op, const KernelIo& io) {
  using Op = Conv2d;
  const MatmulOperands t = matmul_operands(op, io);
  return kernel_of(io, Convolution(t.x, t.y, Filters(t.w, 0, false), op.geometry.padding, op.activation),
                   [](const Convolution& convolution, const Addresses& a) {
                     convolution.run(a.in<void>(Op::x), a.in<char>(Op::w), a.in<void>(Op::b),
                                     a.out<void>(Op::y), a.workspace<float>());
                   });
}

template <>
KernelPtr winograd_kernel(const Conv2dBackwardData& op, const KernelIo& io) {
  using Op = Conv2dBackwardData;
  const MatmulOperands t = matmul_operands(op, io);
  const auto [vertical, horizontal] = op.geometry.padding;
  return kernel_of(
      io, Convolution(t.y, t.x, Filters(t.w, 1, true), {2 - vertical, 2 - horizontal}, Activation::none),
      [](const Convolution& convolution, const Addresses& a) {
        convolution.run(a.in<void>(Op::dy), a.in<char>(Op::w), nullptr, a.out<void>(Op::dx),
                        a.workspace<float>());
      });
}

template <>
KernelPtr winograd_kernel(const Conv2dBackwardWeights& op, const KernelIo& io) {
  using Op = Conv2dBackwardWeights;
  const MatmulOperands t = matmul_operands(op, io);
  return kernel_of(io, WeightGradients(t.x, t.y, t.w, op.geometry.padding),
                   [](const WeightGradients& gradients, const Addresses& a) {
                     gradients.run(a.in<void>(Op::x), a.in<void>(Op::dy), a.out<void>(Op::dw),
                                   a.workspace<float>());
                   });
}

}  // namespace lockstep::kernels
