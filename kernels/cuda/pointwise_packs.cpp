#include "kernels/cuda/portability.h"

#include "kernels/cuda/pointwise_packs.h"

#include <limits>

namespace lockstep::kernels {

std::optional<Packs> Packs::of(const PointwiseWalk& walk, std::size_t inputs, std::int64_t lanes) {
  const std::size_t inner = walk.axes - 1;
  const std::int64_t count = walk.elements() / lanes;
  const bool fits = walk.axes == 1 || walk.extents[inner] % lanes == 0;
  if (count == 0 || count > std::numeric_limits<std::int32_t>::max() || !fits) return {};
  Packs packs;
  packs.lanes_ = lanes;
  packs.packs_ = static_cast<std::uint32_t>(count);
  packs.axes_ = walk.axes;
  for (std::size_t axis = 0; axis < walk.axes; ++axis) {
    const std::int64_t extent = walk.extents[inner - axis] / (axis == 0 ? lanes : 1);
    packs.extents_[axis] = FastDivision(static_cast<std::uint32_t>(extent));
  }
  for (std::size_t i = 0; i < inputs; ++i) {
    const auto& from = walk.in_strides[i];
    PackStrides& to = packs.strides_[i];
    if (from[inner] != 0 && from[inner] != 1) return {};
    to.splat = from[inner] == 0;
    to.of[0] = to.splat ? 0 : 1;
    for (std::size_t axis = 1; axis < walk.axes; ++axis) {
      const std::int64_t stride = from[inner - axis];
      if (!to.splat && stride % lanes != 0) return {};
      to.of[axis] = static_cast<std::uint32_t>(to.splat ? stride : stride / lanes);
    }
  }
  return packs;
}

}  // namespace lockstep::kernels
