#include "kernels/cpu/winograd_conv2d.h"

#include "kernels/base/division.h"
#include "kernels/cpu/onednn.h"
#include "kernels/matmul.h"
#include "kernels/winograd_conv2d.h"

namespace lockstep::kernels {
namespace {

/// Costs are in multiply-adds of a product, of f32 or of bf16: what a transform's element takes to compute,
/// and to write and read once more. Factors of bf16 round more than the definition does: that must be worth a
/// quarter of its time.
bool saves_time(const MatmulOperands& t) {
  constexpr double per_picture_element = 20;
  constexpr double per_filter_element = 32;
  const DType factors = winograd_factors(t.x.dtype);
  const double least = factors == DType::bf16 ? 4.0 / 3 : 1;
  const std::int64_t extent = winograd_extent(factors);
  const auto tiles_along = [&](std::size_t axis) { return parts_of(t.y.shape[axis], extent); };
  const auto pixels = static_cast<double>(t.y.shape[0] * t.y.shape[2] * t.y.shape[3]);
  const auto tiles = static_cast<double>(t.y.shape[0] * tiles_along(2) * tiles_along(3));
  const auto in = static_cast<double>(t.x.shape[1]);
  const auto out = static_cast<double>(t.y.shape[1]);
  const double products =
      in * out * tiles + per_picture_element * tiles * (in + out) + per_filter_element * in * out;
  return least * products * static_cast<double>((extent + 2) * (extent + 2)) < 9 * pixels * in * out;
}

}  // namespace

std::optional<Planes> winograd_planes(const TensorDesc& pictures) {
  const auto planes = pool_planes(pictures.layout_or_row_major());
  const bool fills = planes && planes->lanes % 8 == 0 && planes->lanes * planes->groups == pictures.shape[1];
  return fills ? planes : std::nullopt;
}

DType winograd_factors(DType dtype) {
  return dtype == DType::bf16 && onednn::multiplies_bf16_in_pairs() ? DType::bf16 : DType::f32;
}

template <class Op>
bool has_winograd(const Op& op, const KernelIo& io) {
  const Conv2dGeometry& g = op.geometry;
  const MatmulOperands t = matmul_operands(op, io);
  constexpr std::array<std::int64_t, 2> ones{1, 1};
  const bool bias_gradient = MatmulBackwardWeights<Op> && t.b != nullptr;
  const bool fits = g.stride == ones && g.dilation == ones && g.groups == 1 && t.w.shape[2] == 3 &&
                    t.w.shape[3] == 3 && g.padding[0] <= 2 && g.padding[1] <= 2 && t.x.dtype != DType::f16 &&
                    !bias_gradient;
  return fits && t.x.shape[1] % WinogradTiles::panel == 0 && t.y.shape[1] % WinogradTiles::panel == 0 &&
         winograd_planes(t.x) && winograd_planes(t.y);
}

template <class Op>
bool takes_winograd(const Op& op, const KernelIo& io) {
  if (op.algorithm != Algorithm::automatic && op.algorithm != Algorithm::own_winograd) return false;
  if (!has_winograd(op, io)) return false;
  return op.algorithm == Algorithm::own_winograd || saves_time(matmul_operands(op, io));
}

template bool has_winograd(const Conv2d&, const KernelIo&);
template bool has_winograd(const Conv2dBackwardData&, const KernelIo&);
template bool has_winograd(const Conv2dBackwardWeights&, const KernelIo&);
template bool takes_winograd(const Conv2d&, const KernelIo&);
template bool takes_winograd(const Conv2dBackwardData&, const KernelIo&);
template bool takes_winograd(const Conv2dBackwardWeights&, const KernelIo&);

}  // namespace lockstep::kernels
