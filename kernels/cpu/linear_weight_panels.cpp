#include "kernels/cpu/linear_panels.h"

#include <algorithm>
#include <cstddef>

#include "kernels/base/division.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/linear_panel_parts.h"

namespace lockstep::kernels {
namespace {

using namespace linear_panels;

/// Multiply-adds of a product of a few us, below which the library's way is as good.
constexpr std::int64_t least_product = 1 << 19;

/// Bytes of a term: an f32 or two bf16.
constexpr std::int64_t word = sizeof(float);
constexpr std::int64_t page = 4096;

/// dw^T = x^T dy: for a block of inputs, x^T packed in chunks of rows, and then a group of panels of dy after
/// another.
struct WeightGradient {
  static constexpr std::int64_t most_outputs = 2 * panel;

  MatmulSize size;
  DType factors;
  WeightLayout layout;  ///< of dw
  std::int64_t threads = omp_get_max_threads();
  bool is_wide = has_wide_vectors();

  bool in_panels() const { return layout == WeightLayout::panels || layout == WeightLayout::panels_of_pairs; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(size_of(factors)); }
  /// Rows of x and dy whose words fill a chunk.
  std::int64_t chunk_rows() const { return chunk * word / bytes(); }
  std::int64_t words(std::int64_t rows) const { return parts_of(rows * bytes(), word); }

  /// Processors without wide vectors have smaller caches, too.
  std::int64_t block() const { return part_of(size.inputs, is_wide ? 512 : 256); }
  /// Outputs of a group of panels.
  std::int64_t group() const { return is_wide ? most_outputs : panel; }
  std::int64_t groups() const { return parts_of(size.outputs, group()); }
  std::int64_t chunks() const { return parts_of(size.rows, chunk_rows()); }
  /// f32 needs no packing where rows lie closer than a page: x^T is read as it lies. Where a panel takes more
  /// than one vector it is read again for each, and must stay in the first cache meanwhile.
  bool in_place() const {
    return factors == DType::f32 && size.inputs * bytes() < (is_wide ? page : page / 2);
  }
  std::int64_t packed() const { return in_place() ? 0 : chunks() * block() * chunk; }
  /// Of a thread: a chunk of a panel of dy, one for all, so that it is in the first cache when it is written;
  /// and panels of dw^T.
  std::int64_t room() const { return chunk * panel + (in_panels() ? 0 : block() * group()); }
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

  /// A chunk of a matrix, as far as a product reads it.
  struct Rows {
    const void* at;
    std::int64_t count, stride, bytes;  ///< from row to row, and of a row
    bool stays;                         ///< the matrix, in the second cache
  };

  static bool stays_in_cache(std::int64_t bytes) { return bytes <= PanelProduct::second_cache; }

  Rows dy_rows(const Arguments& a, std::int64_t row, std::int64_t at) const {
    const std::int64_t row_bytes = size.outputs * bytes();
    return {a.dy + row * row_bytes + at * group() * bytes(), chunk_rows(), row_bytes, group() * bytes(),
            stays_in_cache(size.rows * row_bytes)};
  }
  /// Of a block's inputs [first, first + count).
  Rows x_rows(const Arguments& a, std::int64_t row, std::int64_t begin, std::int64_t first,
              std::int64_t count) const {
    const bool stays = stays_in_cache(size.rows * size.inputs * bytes());
    if (in_place())
      return {x_at(a, row, begin + first), chunk, size.inputs * bytes(), count * bytes(), stays};
    const std::int64_t inputs = std::min(block(), size.inputs - begin);
    return {a.packed + (row / chunk_rows() * inputs + first) * chunk, chunk, count * word, count * word,
            stays};
  }

  static void fetch(const Rows& rows, PanelProduct& product) {
    product.next = rows.at;
    product.next_row = rows.stride;
    product.next_bytes = rows.bytes;
    product.next_rows = rows.stays ? 0 : rows.count;
  }

  /// Inputs [first, first + count) of the block that begins at `begin`, of group `at` of panels.
  void add_up(const Arguments& a, std::int64_t at, std::int64_t begin, std::int64_t first,
              std::int64_t count) const {
    const std::int64_t output = at * group();
    const std::int64_t columns = std::min(group(), size.outputs - output);
    float* const copied = a.rooms + omp_get_thread_num() * room();
    float* const dw =
        in_panels() ? a.dw + output * size.inputs + (begin + first) * panel : copied + chunk * panel;
    const std::int64_t dw_panel = in_panels() ? size.inputs * panel : block() * panel;
    float sums[most_outputs] = {};
    for (std::int64_t row = 0; row < size.rows; row += chunk_rows()) {
      const std::byte* const dy = a.dy + (row * size.outputs + output) * bytes();
      const bool last = row + chunk_rows() >= size.rows;
      const std::int64_t next = last ? 0 : row + chunk_rows();
      const PanelCopy copy{std::min(chunk_rows(), size.rows - row), size.outputs, factors};
      const Rows x = x_rows(a, row, begin, first, count);
      // The first panel's product fetches what comes next of dy, the second's of x.
      const Rows next_dy = dy_rows(a, next, last ? (at + 1) % groups() : at);
      PanelProduct product{count, words(copy.rows), in_place() ? panel : panel * chunk, panel};
      product.copy = &copy;
      product.accumulates = row > 0;
      product.factors = factors;
      product.a_term = in_place() ? size.inputs : panel;
      product.pairs_rows = layout == WeightLayout::panels_of_pairs;
      for (std::int64_t column = 0; column < columns; column += panel) {
        fetch(column == 0 ? next_dy : x_rows(a, next, begin, first, count), product);
        product.from = dy + column * bytes();
        product.from_sums = sums + column;
        simd::best<PanelProduct>()(product, x.at, copied, dw + column / panel * dw_panel);
      }
    }
    for (std::int64_t column = 0; !in_panels() && column < columns; column += panel) {
      lay_out(dw + column / panel * dw_panel, a.dw, begin + first, count, output + column);
    }
    if (a.db != nullptr && begin + first == 0) std::copy_n(sums, columns, a.db + output);
  }

  /// A panel of dw^T, of inputs from `input` on, as rows or columns of dw.
  void lay_out(const float* sums, float* dw, std::int64_t input, std::int64_t inputs,
               std::int64_t output) const {
    if (layout == WeightLayout::row_major) {
      simd::best<Transpose>()({inputs, panel, panel, size.inputs}, sums, dw + output * size.inputs + input);
      return;
    }
    for (std::int64_t i = 0; i < inputs; ++i) {
      std::copy_n(sums + i * panel, panel, dw + (input + i) * size.outputs + output);
    }
  }

  void run(const Arguments& a) const {
    for (std::int64_t first = 0; first < size.inputs; first += block()) {
      const std::int64_t inputs = std::min(block(), size.inputs - first);
      const std::int64_t work = size.rows * inputs * size.outputs;
      parallel_ranges(in_place() ? 0 : chunks(), work, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t at = begin; at < end; ++at) pack(a, at, first, inputs);
      });
      const std::int64_t parts = inputs / panel;
      parallel_ranges(groups() * parts, work, 1, [&](std::int64_t begin, std::int64_t end) {
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

bool takes_panels(const LinearBackwardWeights& op, const KernelIo& matrices) {
  const TensorDesc& dw = matrices.outputs[LinearBackwardWeights::dw];
  const auto is_f32 = [](const TensorDesc& desc) { return desc.dtype == DType::f32; };
  return std::ranges::all_of(matrices.outputs, is_f32) && takes(op, matrices, panel, least_product) &&
         weight_layout(dw).has_value();
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
  return cpu_kernel(matrices, run, gradient.workspace_bytes());
}

}  // namespace lockstep::kernels
