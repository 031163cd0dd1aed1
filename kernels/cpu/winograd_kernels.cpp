#include "kernels/cpu/winograd_conv2d.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"
#include "kernels/matmul.h"
#include "kernels/winograd_conv2d.h"

namespace lockstep::kernels {
namespace {

using Tiles = WinogradTiles;

constexpr std::int64_t positions = Tiles::positions;
constexpr std::int64_t panel = Tiles::panel;

/// Tiles that hold y, of pictures of x or y.
Tiles tiles_of(const TensorDesc& pictures, const Shape& y) {
  return {.dtype = pictures.dtype,
          .height = pictures.shape[2],
          .width = pictures.shape[3],
          .rows = (y[2] + Tiles::extent - 1) / Tiles::extent,
          .columns = (y[3] + Tiles::extent - 1) / Tiles::extent,
          .planes = *winograd_planes(pictures)};
}

/// Matrices of transforms of pictures or of filters. Panels and positions begin in different cache lines of a
/// page, or a transform's 36 elements would share a few lines of the cache.
struct Matrices {
  std::int64_t rows, columns;

  std::int64_t panels() const { return columns / panel; }
  WinogradMatrices strides() const {
    const std::int64_t of_panel = (rows | 1) * panel;
    return {panels() * of_panel + cache_line_floats, of_panel};
  }
  std::int64_t floats() const { return positions * strides().position; }
};

/// A part of all tiles, whose transforms stay in the cache.
struct Blocks {
  std::int64_t tiles, size;

  Blocks(std::int64_t all, std::int64_t channels) : tiles(all), size(0) {
    constexpr std::int64_t floats = 1 << 22;
    const std::int64_t most = std::clamp<std::int64_t>(floats / (positions * channels), 48, 144);
    constexpr std::int64_t rows = 12;  // that a product takes at once, or half of them
    const std::int64_t count = (tiles + most - 1) / most;
    size = ((tiles + count - 1) / count + rows - 1) / rows * rows;
  }

  template <class Body>
  void for_each(const Body& body) const {
    for (std::int64_t first = 0; first < tiles; first += size) body(first, std::min(tiles, first + size));
  }
};

/// Calls `transform` of `kernel` for tiles [first, end) on the team.
template <class Kernel>
void over_tiles(std::int64_t first, std::int64_t end, const Matrices& to, const Kernel& kernel) {
  parallel_ranges(end - first, (end - first) * to.columns * positions, 1,
                  [&](std::int64_t from, std::int64_t until) {
                    kernel(WinogradRange{first + from, first + until, first, 0, to.panels(), to.strides()});
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
  const std::int64_t work = positions * panels * panel * product.rows * product.depth;
  parallel_ranges(positions * panels, work, 1, [&](std::int64_t begin, std::int64_t end) {
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
      : input_{tiles_of(x, y.shape), false, padding},
        output_{tiles_of(y, y.shape), activation},
        filters_(std::move(filters)),
        blocks_(x.shape[0] * input_.tiles.rows * input_.tiles.columns, x.shape[1] + y.shape[1]),
        weights_{x.shape[1], y.shape[1]},
        in_{blocks_.size, x.shape[1]},
        out_{blocks_.size, y.shape[1]} {}

  std::size_t workspace() const {
    return static_cast<std::size_t>(weights_.floats() + in_.floats() + out_.floats()) * sizeof(float);
  }

  void run(const void* x, const char* w, const void* b, void* y, float* workspace) const {
    float* const u = workspace;
    float* const v = u + weights_.floats();
    float* const m = v + in_.floats();
    transform_weights(w, u);
    blocks_.for_each([&](std::int64_t first, std::int64_t end) {
      over_tiles(first, end, in_,
                 [&](const WinogradRange& range) { simd::best<WinogradInput>()(input_, range, x, v); });
      multiply({.rows = end - first, .depth = weights_.rows, .panels = out_.panels()}, {v, in_.strides()},
               {u, weights_.strides()}, {m, out_.strides()});
      over_tiles(first, end, out_,
                 [&](const WinogradRange& range) { simd::best<WinogradOutput>()(output_, range, m, b, y); });
    });
  }

 private:
  void transform_weights(const char* w, float* u) const {
    const WinogradWeights op{weights_.strides()};
    parallel_ranges(weights_.panels(), weights_.floats(), 1, [&](std::int64_t begin, std::int64_t end) {
      simd::best<WinogradWeights>()(op, filters_.range(begin * panel, end * panel, 0, weights_.rows),
                                    w + filters_.first * static_cast<std::int64_t>(size_of(filters_.dtype)),
                                    u);
    });
  }

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
      : input_{tiles_of(x, dy.shape), false, padding},
        gradient_{tiles_of(dy, dy.shape), true, {0, 0}},
        filters_(dw, 0, false),
        blocks_(x.shape[0] * input_.tiles.rows * input_.tiles.columns, x.shape[1] + dy.shape[1]),
        weights_{x.shape[1], dy.shape[1]},
        in_{blocks_.size, x.shape[1]},
        out_{blocks_.size, dy.shape[1]} {}

  std::size_t workspace() const {
    return static_cast<std::size_t>(weights_.floats() + in_.floats() + out_.floats()) * sizeof(float);
  }

  void run(const void* x, const void* dy, void* dw, float* workspace) const {
    float* const u = workspace;
    float* const v = u + weights_.floats();
    float* const m = v + in_.floats();
    blocks_.for_each([&](std::int64_t first, std::int64_t end) {
      over_tiles(first, end, in_,
                 [&](const WinogradRange& range) { simd::best<WinogradInput>()(input_, range, x, v); });
      over_tiles(first, end, out_,
                 [&](const WinogradRange& range) { simd::best<WinogradInput>()(gradient_, range, dy, m); });
      multiply({.rows = weights_.rows,
                .depth = end - first,
                .panels = out_.panels(),
                .transposes = true,
                .accumulates = first > 0},
               {v, in_.strides()}, {m, out_.strides()}, {u, weights_.strides()});
    });
    const WinogradWeightGradients op{weights_.strides()};
    parallel_ranges(weights_.panels(), weights_.floats(), 1, [&](std::int64_t begin, std::int64_t end) {
      simd::best<WinogradWeightGradients>()(op, filters_.range(begin * panel, end * panel, 0, weights_.rows),
                                            u, dw);
    });
  }

 private:
  WinogradInput input_, gradient_;
  Filters filters_;
  Blocks blocks_;
  Matrices weights_, in_, out_;
};

/// Calls `run(work, addresses)`; `work` is a Convolution or WeightGradients.
template <class Work, class Run>
KernelPtr kernel_of(const KernelIo& io, Work work, Run run) {
  const std::size_t workspace = work.workspace();
  return simd_kernel(
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
  const std::array<std::int64_t, 2> padding{2 - vertical, 2 - horizontal};
  return kernel_of(io, Convolution(t.y, t.x, Filters(t.w, 1, true), padding, Activation::none),
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
