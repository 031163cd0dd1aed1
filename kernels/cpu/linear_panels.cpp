#include "kernels/cpu/linear_panels.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"
#include "kernels/panel_product.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t panel = PanelProduct::columns;

/// Multiply-adds below which the library's way is as good; of weights, a product of a few us.
constexpr std::int64_t least_product_for_data = 1 << 24;
constexpr std::int64_t least_product_for_weights = 1 << 19;
/// For fewer rows packing all weights takes longer than their better product gains.
constexpr std::int64_t least_rows_for_data = 1024;

/// What of the library's layouts our products read or write: row-major, panels of 64 outputs (AB16b64a), and
/// those with two inputs side by side (AB8b64a2b).
enum class WeightLayout { row_major, panels, panels_of_pairs };

std::optional<WeightLayout> weight_layout(const TensorDesc& w) {
  if (w.is_row_major()) return WeightLayout::row_major;
  const Layout& layout = *w.layout;
  const std::vector<Layout::Block>& blocks = layout.blocks;
  const bool in_panels = layout.padded == w.shape && blocks.size() >= 2 && blocks[0].dim == 1 &&
                         blocks[1] == Layout::Block{0, panel} && layout.strides[0] == w.shape[1] * panel;
  if (!in_panels) return std::nullopt;
  const std::int64_t strip = layout.strides[1] / panel;
  if (blocks.size() == 2 && blocks[0].size == strip) return WeightLayout::panels;
  const bool pairs = blocks.size() == 3 && blocks[2] == Layout::Block{1, 2} && 2 * blocks[0].size == strip;
  return pairs ? std::optional(WeightLayout::panels_of_pairs) : std::nullopt;
}

/// Whether a product of these factors is faster than the library's. Where the processor multiplies tiles of
/// bf16 (AMX) it is not.
bool is_faster(DType factors, MatmulPrecision precision) {
  const std::string_view widest = simd::instruction_sets().back();
  if (factors == DType::bf16) return widest == "avx512_bf16" && onednn::multiplies_bf16_in_pairs();
  return factors == DType::f32 && precision != MatmulPrecision::medium && widest.starts_with("avx512");
}

template <class Op>
bool takes(const Op& op, const KernelIo& io, std::int64_t least_rows, std::int64_t least_product) {
  const MatmulOperands t = matmul_operands(op, io);
  if (t.w.shape.rank() != 2 || !is_faster(t.x.dtype, op.precision)) return false;
  const auto [rows, inputs, outputs] = matmul_size(t.x.shape, t.w.shape);
  return inputs % panel == 0 && outputs % panel == 0 && rows >= least_rows &&
         rows * inputs * outputs >= least_product && t.x.is_row_major() && t.y.is_row_major();
}

/// Terms of a product that are packed at a time: a panel of so many rows stays in the first cache.
constexpr std::int64_t chunk = 128;
constexpr std::int64_t chunk_row = odd_lines(chunk);
/// Bytes of a term: an f32 or two bf16.
constexpr std::int64_t word = sizeof(float);
constexpr std::int64_t page = 4096;
/// Matrices up to so many bytes are there without being fetched ahead.
constexpr std::int64_t second_cache = 1 << 20;

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
  void add_up(const float* dy, float* packed, float* dx, float* room, std::int64_t rows, std::int64_t first,
              std::int64_t columns) const {
    for (std::int64_t k = 0; k < size.outputs; k += chunk) {
      const std::int64_t depth = std::min(chunk, size.outputs - k);
      for (std::int64_t row = 0; row < rows; ++row) {
        std::copy_n(dy + row * size.outputs + k, depth, room + row * chunk_row);
      }
      PanelProduct product{rows, depth, chunk_row, size.inputs};
      product.accumulates = k > 0;
      product.next_row = size.outputs * static_cast<std::int64_t>(sizeof(float));
      product.next_bytes = chunk * static_cast<std::int64_t>(sizeof(float));
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
  DType factors;
  WeightLayout layout;  ///< of dw
  std::int64_t threads = omp_get_max_threads();

  bool row_major() const { return layout == WeightLayout::row_major; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(size_of(factors)); }
  /// Rows of x and dy whose words fill a chunk.
  std::int64_t chunk_rows() const { return chunk * word / bytes(); }
  std::int64_t words(std::int64_t rows) const { return (rows * bytes() + word - 1) / word; }

  std::int64_t block() const { return part_of(size.inputs, 512); }
  std::int64_t pairs() const { return (size.outputs + pair - 1) / pair; }
  std::int64_t chunks() const { return (size.rows + chunk_rows() - 1) / chunk_rows(); }
  /// f32 needs no packing where a page holds more than one row: x^T is read as it lies.
  bool in_place() const { return factors == DType::f32 && size.inputs * bytes() < page; }
  std::int64_t packed() const { return in_place() ? 0 : chunks() * block() * chunk; }
  /// Of a thread: a chunk of a panel of dy, one for all, so that it is in the first cache when it is written;
  /// and panels of dw^T.
  std::int64_t room() const { return chunk * panel + (row_major() ? block() * pair : 0); }
  std::size_t workspace_bytes() const {
    return static_cast<std::size_t>((packed() + threads * room()) * word);
  }

  struct Arguments {
    const std::byte* x;
    const std::byte* dy;
    float* dw;
    float* db;
    float* packed;
    float* rooms;
  };

  const std::byte* x_at(const Arguments& a, std::int64_t row, std::int64_t input) const {
    return a.x + (row * size.inputs + input) * bytes();
  }

  /// A chunk of rows, into panels of `chunk` words.
  void pack(const Arguments& a, std::int64_t at, std::int64_t begin, std::int64_t inputs) const {
    const std::int64_t row = at * chunk_rows();
    const PanelCopy copy{std::min(chunk_rows(), size.rows - row), size.inputs, factors};
    float* const to = a.packed + at * inputs * chunk;
    for (std::int64_t input = 0; input < inputs; input += panel) {
      simd::best<PanelCopy>()(copy, x_at(a, row, begin + input), to + input * chunk, nullptr);
    }
  }

  /// Inputs [first, first + count) of the block that begins at `begin`, of pair `at` of panels.
  void add_up(const Arguments& a, std::int64_t at, std::int64_t begin, std::int64_t first,
              std::int64_t count) const {
    const std::int64_t output = at * pair;
    const std::int64_t columns = std::min(pair, size.outputs - output);
    const std::int64_t inputs = std::min(block(), size.inputs - begin);
    float* const copied = a.rooms + omp_get_thread_num() * room();
    float* const dw =
        row_major() ? copied + chunk * panel : a.dw + output * size.inputs + (begin + first) * panel;
    const std::int64_t dw_panel = row_major() ? block() * panel : size.inputs * panel;
    float sums[pair] = {};
    for (std::int64_t row = 0; row < size.rows; row += chunk_rows()) {
      const std::byte* const dy = a.dy + (row * size.outputs + output) * bytes();
      const bool last = row + chunk_rows() >= size.rows;
      const std::byte* const next =
          last ? a.dy + (at + 1) % pairs() * pair * bytes() : dy + chunk_rows() * size.outputs * bytes();
      const PanelCopy copy{std::min(chunk_rows(), size.rows - row), size.outputs, factors};
      const void* const x = in_place() ? static_cast<const void*>(x_at(a, row, begin + first))
                                       : a.packed + (row / chunk_rows() * inputs + first) * chunk;
      PanelProduct product{count, words(copy.rows), in_place() ? panel : panel * chunk, panel};
      product.copy = &copy;
      product.accumulates = row > 0;
      product.factors = factors;
      product.a_term = in_place() ? size.inputs : panel;
      product.pairs_rows = layout == WeightLayout::panels_of_pairs;
      product.next_row = size.outputs * bytes();
      product.next_bytes = pair * bytes();
      product.next_rows = size.rows * product.next_row > second_cache ? copy.rows * panel / columns : 0;
      for (std::int64_t column = 0; column < columns; column += panel) {
        product.next = next + column / panel * product.next_rows * product.next_row;
        product.from = dy + column * bytes();
        product.from_sums = sums + column;
        simd::best<PanelProduct>()(product, x, copied, dw + column / panel * dw_panel);
      }
    }
    for (std::int64_t column = 0; row_major() && column < columns; column += panel) {
      simd::best<Transpose>()({count, panel, panel, size.inputs}, dw + column / panel * dw_panel,
                              a.dw + (output + column) * size.inputs + begin + first);
    }
    if (a.db != nullptr && begin + first == 0) std::copy_n(sums, columns, a.db + output);
  }

  void run(const Arguments& a) const {
    for (std::int64_t first = 0; first < size.inputs; first += block()) {
      const std::int64_t inputs = std::min(block(), size.inputs - first);
      const std::int64_t work = size.rows * inputs * size.outputs;
      parallel_ranges(in_place() ? 0 : chunks(), work, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t at = begin; at < end; ++at) pack(a, at, first, inputs);
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
  const TensorDesc& w = matrices.inputs[LinearBackwardData::w];
  return w.dtype == DType::f32 && takes(op, matrices, least_rows_for_data, least_product_for_data) &&
         weight_layout(w).value_or(WeightLayout::panels_of_pairs) != WeightLayout::panels_of_pairs;
}
bool takes_panels(const LinearBackwardWeights& op, const KernelIo& matrices) {
  const TensorDesc& dw = matrices.outputs[LinearBackwardWeights::dw];
  return dw.dtype == DType::f32 && takes(op, matrices, panel, least_product_for_weights) &&
         weight_layout(dw).has_value();
}

KernelPtr panel_kernel(const LinearBackwardData& op, const KernelIo& matrices) {
  using Op = LinearBackwardData;
  const MatmulOperands t = matmul_operands(op, matrices);
  const DataGradient gradient{matmul_size(t.x.shape, t.w.shape), t.w.is_row_major()};
  const auto run = [gradient](const Addresses& a) {
    gradient.run(a.in(Op::dy), a.in(Op::w), a.workspace<float>(), a.out(Op::dx));
  };
  return simd_kernel(matrices, run, gradient.workspace_bytes());
}

KernelPtr panel_kernel(const LinearBackwardWeights& op, const KernelIo& matrices) {
  using Op = LinearBackwardWeights;
  const MatmulOperands t = matmul_operands(op, matrices);
  const WeightGradient gradient{matmul_size(t.x.shape, t.w.shape), t.x.dtype, weight_layout(t.w).value()};
  const auto run = [gradient](const Addresses& a) {
    auto* const packed = a.workspace<float>();
    gradient.run({a.in<std::byte>(Op::x), a.in<std::byte>(Op::dy), a.out(Op::dw), a.out(Op::db), packed,
                  packed + gradient.packed()});
  };
  return simd_kernel(matrices, run, gradient.workspace_bytes());
}

}  // namespace lockstep::kernels
