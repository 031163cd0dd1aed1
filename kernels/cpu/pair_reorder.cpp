#include "kernels/cpu/pair_reorder.h"

#include <vector>

#include "kernels/base/half.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/tile_product.h"

namespace lockstep::kernels {

std::optional<PairReorder> PairReorder::of(const TensorDesc& from, const TensorDesc& to) {
  using Blocks = std::vector<Layout::Block>;
  const Layout given = from.layout_or_row_major();
  const Layout wanted = to.layout_or_row_major();
  const Shape& shape = from.shape;
  const std::int64_t panel = given.blocks.size() == 3 ? given.blocks[1].size : 0;
  const bool fits = from.dtype == DType::bf16 && to.dtype == DType::bf16 && shape == to.shape &&
                    shape.rank() == 4 && simd::has_amx() && given.padded == shape && wanted.padded == shape &&
                    panel % Tile::terms == 0 && given.blocks == Blocks{{1, 16}, {0, panel}, {1, 2}} &&
                    given.strides[1] == Tile::pair * panel &&
                    wanted.blocks == Blocks{{0, 16}, {1, 16}, {0, 2}};
  return fits ? std::optional(PairReorder(shape, panel, given.strides, wanted.strides)) : std::nullopt;
}

void PairReorder::run(const void* from, void* to) const {
  const std::int64_t weights = shape_[2] * shape_[3];
  const auto bytes = static_cast<std::int64_t>(sizeof(BFloat16));
  const TileWeights block{.terms = Tile::terms,
                          .columns = shape_[1],
                          .panel = panel_,
                          .from_panel = from_[0],
                          .from_pair = 2 * panel_,
                          .next = to_[1] * bytes};
  parallel_ranges(
      shape_[0] / Tile::terms * weights, shape_.elements(), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t output = i / weights * Tile::terms;
          const std::int64_t row = i % weights / shape_[3];
          const std::int64_t column = i % shape_[3];
          const std::int64_t source =
              output / panel_ * from_[0] + output % panel_ * 2 + row * from_[2] + column * from_[3];
          const std::int64_t target = output / Tile::terms * to_[0] + row * to_[2] + column * to_[3];
          simd::best<TileWeights>()(block, static_cast<const BFloat16*>(from) + source,
                                    static_cast<BFloat16*>(to) + target);
        }
      });
}

}  // namespace lockstep::kernels
