#include "kernels/cpu/linear_panels.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/linear_panel_parts.h"

namespace lockstep::kernels {
namespace {

using namespace linear_panels;

/// Multiply-adds below which the library's way is as good.
constexpr std::int64_t least_product = 1 << 24;
/// For fewer rows packing all weights takes longer than their better product gains.
constexpr std::int64_t least_rows = 1024;

constexpr std::int64_t chunk_row = odd_lines(chunk);

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

}  // namespace

bool takes_panels(const LinearBackwardData& op, const KernelIo& matrices) {
  const TensorDesc& w = matrices.inputs[LinearBackwardData::w];
  const std::optional<WeightLayout> layout = weight_layout(w);
  return w.dtype == DType::f32 && takes(op, matrices, least_rows, least_product) &&
         (layout == WeightLayout::row_major || layout == WeightLayout::panels);
}
KernelPtr panel_kernel(const LinearBackwardData& op, const KernelIo& matrices) {
  using Op = LinearBackwardData;
  const MatmulOperands t = matmul_operands(op, matrices);
  const DataGradient gradient{matmul_size(t.x.shape, t.w.shape), t.w.is_row_major()};
  const auto run = [gradient](const Addresses& a) {
    gradient.run(a.in(Op::dy), a.in(Op::w), a.workspace<float>(), a.out(Op::dx));
  };
  return cpu_kernel(matrices, run, gradient.workspace_bytes());
}

}  // namespace lockstep::kernels
