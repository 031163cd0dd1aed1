#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/base/division.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/linear.h"
#include "kernels/panel_product.h"

/// What both gradients of a linear map (kernels/cpu/linear_panels.h) have in common.
namespace lockstep::kernels::linear_panels {

inline constexpr std::int64_t panel = PanelProduct::columns;
/// Terms of a product that are packed at a time.
inline constexpr std::int64_t chunk = PanelProduct::most_depth;

/// Parts of `all`, each at most `most`, in whole panels.
constexpr std::int64_t part_of(std::int64_t all, std::int64_t most) {
  return parts_of(all / panel, parts_of(all, most)) * panel;
}

/// What of the library's layouts our products read or write: row-major, column-major, panels of 64 outputs
/// (AB16b64a), and those with two inputs side by side (AB8b64a2b).
enum class WeightLayout { row_major, column_major, panels, panels_of_pairs };

inline std::optional<WeightLayout> weight_layout(const TensorDesc& w) {
  if (w.is_row_major()) return WeightLayout::row_major;
  const Layout& layout = *w.layout;
  const Layout column_major{.padded = w.shape, .strides = {1, w.shape[0]}, .blocks = {}};
  if (layout == column_major) return WeightLayout::column_major;
  const std::vector<Layout::Block>& blocks = layout.blocks;
  const bool in_panels = layout.padded == w.shape && blocks.size() >= 2 && blocks[0].dim == 1 &&
                         blocks[1] == Layout::Block{0, panel} && layout.strides[0] == w.shape[1] * panel;
  if (!in_panels) return std::nullopt;
  const std::int64_t strip = layout.strides[1] / panel;
  if (blocks.size() == 2 && blocks[0].size == strip) return WeightLayout::panels;
  const bool pairs = blocks.size() == 3 && blocks[2] == Layout::Block{1, 2} && 2 * blocks[0].size == strip;
  return pairs ? std::optional(WeightLayout::panels_of_pairs) : std::nullopt;
}

/// Whether the vectors have 512 bits.
inline bool has_wide_vectors() {
  return simd::instruction_sets().back().starts_with("avx512");
}

/// Whether a product of these factors is faster than the library's, which on AVX2 is slow for gradients of
/// weights alone. Where the processor multiplies tiles of bf16 (AMX) it is not.
template <class Op>
bool is_faster(const Op& op, DType factors) {
  const std::string_view widest = simd::instruction_sets().back();
  if (factors == DType::bf16) return widest == "avx512_bf16" && onednn::multiplies_bf16_in_pairs();
  const bool is_wide = has_wide_vectors() || (MatmulBackwardWeights<Op> && widest == "avx2");
  return factors == DType::f32 && !onednn::rounds_to_bf16(op.precision) && is_wide;
}

template <class Op>
bool takes(const Op& op, const KernelIo& io, std::int64_t least_rows, std::int64_t least_product) {
  const MatmulOperands t = matmul_operands(op, io);
  if (t.w.shape.rank() != 2 || !is_faster(op, t.x.dtype)) return false;
  const auto [rows, inputs, outputs] = matmul_size(t.x.shape, t.w.shape);
  return inputs % panel == 0 && outputs % panel == 0 && rows >= least_rows &&
         rows * inputs * outputs >= least_product && t.x.is_row_major() && t.y.is_row_major();
}

}  // namespace lockstep::kernels::linear_panels
