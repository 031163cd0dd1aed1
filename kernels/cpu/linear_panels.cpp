#include "kernels/cpu/linear_panels.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"
#include "kernels/panel_product.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t panel = PanelProduct::columns;

/// Below so many multiply-adds the library's way is as good.
constexpr std::int64_t least_product = 1 << 24;
/// For fewer rows packing all weights takes longer than their better product gains.
constexpr std::int64_t least_rows_for_data = 1024;

bool in_panels_of_outputs(const TensorDesc& w) {
  const std::int64_t inputs = w.shape[1];
  const Layout& layout = *w.layout;
  if (layout.padded != w.shape || layout.blocks.size() != 2) return false;
  const auto [first, second] = std::pair(layout.blocks[0], layout.blocks[1]);
  return first.dim == 1 && second == Layout::Block{0, panel} && layout.strides[1] == first.size * panel &&
         layout.strides[0] == inputs * panel;
}

bool is_row_major(const TensorDesc& desc) {
  return desc.layout_or_row_major().is_row_major(desc.shape);
}

template <class Op>
bool takes(const Op& op, const KernelIo& io, std::int64_t least_rows) {
  const MatmulOperands t = matmul_operands(op, io);
  if (t.w.shape.rank() != 2 || t.w.dtype != DType::f32 || t.x.dtype != DType::f32) return false;
  if (op.precision == MatmulPrecision::medium || !simd::instruction_sets().back().starts_with("avx512"))
    return false;
  const auto [rows, inputs, outputs] = matmul_size(t.x.shape, t.w.shape);
  return inputs % panel == 0 && outputs % panel == 0 && rows >= least_rows &&
         rows * inputs * outputs >= least_product && is_row_major(t.x) && is_row_major(t.y) &&
         (is_row_major(t.w) || in_panels_of_outputs(t.w));
}

/// Terms of a product that are packed at a time: a panel of so many rows stays in the first cache.
constexpr std::int64_t chunk = 128;
constexpr std::int64_t chunk_row = odd_lines(chunk);

/// Parts of `all`, each at most `most`, in whole panels.
std::int64_t part_of(std::int64_t all, std::int64_t most) {
  const std::int64_t parts = (all + most - 1) / most;
  return (all / panel + parts - 1) / parts * panel;
}

/// dx = dy w: all of w is packed, then blocks of dx, which stay in the second cache, take chunk after chunk.
struct DataGradient {
  static constexpr std::int64_t group = 126;  ///< rows of a block

  MatmulSize size;
  bool row_major;  ///< w, else in panels of outputs
  std::int64_t threads = omp_get_max_threads();

  std::int64_t packed() const { return size.inputs * size.outputs; }
  std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(packed() + threads * group * chunk_row) * sizeof(float);
  }

  void pack(std::int64_t at, const float* w, float* to) const {
    if (row_major) {
      simd::best<PanelCopy>()({size.outputs, size.inputs}, w + at * panel, to, nullptr);
      return;
    }
    for (std::int64_t out = 0; out < size.outputs; out += panel) {
      simd::best<Transpose>()({panel, panel, panel, panel}, w + out * size.inputs + at * panel * panel,
                              to + out * panel);
    }
  }

  /// A block of dx: `rows` rows of columns from `first` on, of which there are `columns`.
  void add_up(const float* dy, const float* packed, float* dx, float* room, std::int64_t rows,
              std::int64_t first, std::int64_t columns) const {
    for (std::int64_t k = 0; k < size.outputs; k += chunk) {
      const std::int64_t depth = std::min(chunk, size.outputs - k);
      for (std::int64_t row = 0; row < rows; ++row) {
        std::copy_n(dy + row * size.outputs + k, depth, room + row * chunk_row);
      }
      PanelProduct product{rows, depth, chunk_row, size.inputs};
      product.accumulates = k > 0;
      product.next_row = size.outputs;
      const float* const next = k + chunk < size.outputs ? dy + k + chunk : dy + rows * size.outputs;
      for (std::int64_t column = 0; column < columns; column += panel) {
        const std::int64_t fetched = rows * column / columns;
        product.next = next + fetched * size.outputs;
        product.next_rows = rows * (column + panel) / columns - fetched;
        simd::best<PanelProduct>()(product, room, packed + (first + column) * size.outputs + k * panel,
                                   dx + first + column);
      }
    }
  }

  void run(const float* dy, const float* w, float* packed_w, float* dx) const {
    const std::int64_t work = size.rows * packed();
    const std::int64_t columns = part_of(size.inputs, 512);
    parallel_ranges(size.inputs / panel, work, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) pack(at, w, packed_w + at * panel * size.outputs);
    });
    parallel_ranges(size.rows, work, 6, [&](std::int64_t begin, std::int64_t end) {
      float* const room = packed_w + packed() + omp_get_thread_num() * group * chunk_row;
      for (std::int64_t first = 0; first < size.inputs; first += columns) {
        for (std::int64_t row = begin; row < end; row += group) {
          add_up(dy + row * size.outputs, packed_w, dx + row * size.inputs, room, std::min(group, end - row),
                 first, std::min(columns, size.inputs - first));
        }
      }
    });
  }
};

/// dw^T = x^T dy: for a block of inputs, x^T packed in chunks of rows, and then two panels of dy after
/// another.
struct WeightGradient {
  static constexpr std::int64_t pair = 2 * panel;

  MatmulSize size;
  bool row_major;  ///< dw, else in panels of outputs
  std::int64_t threads = omp_get_max_threads();

  std::int64_t block() const { return part_of(size.inputs, 512); }
  std::int64_t pairs() const { return (size.outputs + pair - 1) / pair; }
  std::int64_t chunks() const { return (size.rows + chunk - 1) / chunk; }
  std::int64_t packed() const { return chunks() * block() * chunk_row; }
  /// Of a thread: chunks of dy's panels, and panels of dw^T.
  std::int64_t room() const { return (chunk + (row_major ? block() : 0)) * pair; }
  std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(packed() + threads * room()) * sizeof(float);
  }

  struct Arguments {
    const float* x;
    const float* dy;
    float* dw;
    float* db;
    float* packed;
    float* rooms;
  };

  /// Inputs [first, first + count) of the block that begins at `begin`, of pair `at` of panels.
  void add_up(const Arguments& a, std::int64_t at, std::int64_t begin, std::int64_t first,
              std::int64_t count) const {
    const std::int64_t output = at * pair;
    const std::int64_t columns = std::min(pair, size.outputs - output);
    const std::int64_t inputs = std::min(block(), size.inputs - begin);
    float* const copies = a.rooms + omp_get_thread_num() * room();
    float* const dw =
        row_major ? copies + chunk * pair : a.dw + output * size.inputs + (begin + first) * panel;
    const std::int64_t dw_panel = row_major ? block() * panel : size.inputs * panel;
    float sums[pair] = {};
    for (std::int64_t row = 0; row < size.rows; row += chunk) {
      const float* const dy = a.dy + row * size.outputs + output;
      const bool last = row + chunk >= size.rows;
      const float* const next = last ? a.dy + (at + 1) % pairs() * pair : dy + chunk * size.outputs;
      PanelProduct product{count, std::min(chunk, size.rows - row), chunk_row, panel};
      product.accumulates = row > 0;
      product.next_row = size.outputs;
      product.next_rows = product.depth * panel / columns;
      for (std::int64_t column = 0; column < columns; column += panel) {
        float* const copy = copies + chunk * column;
        product.next = next + column / panel * product.next_rows * size.outputs;
        simd::best<PanelCopy>()({product.depth, size.outputs}, dy + column, copy, sums + column);
        simd::best<PanelProduct>()(product, a.packed + (row / chunk * inputs + first) * chunk_row, copy,
                                   dw + column / panel * dw_panel);
      }
    }
    for (std::int64_t column = 0; row_major && column < columns; column += panel) {
      simd::best<Transpose>()({count, panel, panel, size.inputs}, dw + column / panel * dw_panel,
                              a.dw + (output + column) * size.inputs + begin + first);
    }
    if (a.db != nullptr && begin + first == 0) std::copy_n(sums, columns, a.db + output);
  }

  void run(const Arguments& a) const {
    for (std::int64_t first = 0; first < size.inputs; first += block()) {
      const std::int64_t inputs = std::min(block(), size.inputs - first);
      const std::int64_t work = size.rows * inputs * size.outputs;
      parallel_ranges(chunks(), work, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t at = begin; at < end; ++at) {
          const std::int64_t rows = std::min(chunk, size.rows - at * chunk);
          simd::best<Transpose>()({rows, inputs, size.inputs, chunk_row},
                                  a.x + at * chunk * size.inputs + first, a.packed + at * inputs * chunk_row);
        }
      });
      const std::int64_t parts = inputs / panel;
      parallel_ranges(pairs() * parts, work, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t at = begin; at < end;) {
          const std::int64_t part = at % parts;
          const std::int64_t count = std::min(parts - part, end - at);
          add_up(a, at / parts, first, part * panel, count * panel);
          at += count;
        }
      });
    }
  }
};

}  // namespace

bool takes_panels(const LinearBackwardData& op, const KernelIo& matrices) {
  return takes(op, matrices, least_rows_for_data);
}
bool takes_panels(const LinearBackwardWeights& op, const KernelIo& matrices) {
  return takes(op, matrices, panel);
}

KernelPtr panel_kernel(const LinearBackwardData& op, const KernelIo& matrices) {
  using Op = LinearBackwardData;
  const MatmulOperands t = matmul_operands(op, matrices);
  const DataGradient gradient{matmul_size(t.x.shape, t.w.shape), is_row_major(t.w)};
  const auto run = [gradient](const Addresses& a) {
    gradient.run(a.in(Op::dy), a.in(Op::w), a.workspace<float>(), a.out(Op::dx));
  };
  return simd_kernel(matrices, run, gradient.workspace_bytes());
}

KernelPtr panel_kernel(const LinearBackwardWeights& op, const KernelIo& matrices) {
  using Op = LinearBackwardWeights;
  const MatmulOperands t = matmul_operands(op, matrices);
  const WeightGradient gradient{matmul_size(t.x.shape, t.w.shape), is_row_major(t.w)};
  const auto run = [gradient](const Addresses& a) {
    auto* const packed = a.workspace<float>();
    gradient.run(
        {a.in(Op::x), a.in(Op::dy), a.out(Op::dw), a.out(Op::db), packed, packed + gradient.packed()});
  };
  return simd_kernel(matrices, run, gradient.workspace_bytes());
}

}  // namespace lockstep::kernels
