#pragma once

#include <cstdint>
#include <optional>

#include "kernels/layout.h"

namespace lockstep::kernels {

/// A reorder of filters in bf16 from the library's layout for convolutions by tiles, two inputs side by side
/// (AcdB16b32a2b), to the one for their data gradients, two outputs side by side (ABcd16a16b2a): tile after
/// tile. The library takes two to four times as long.
class PairReorder {
 public:
  static std::optional<PairReorder> of(const TensorDesc& from, const TensorDesc& to);

  /// On the team.
  void run(const void* from, void* to) const;

 private:
  PairReorder(Shape shape, std::int64_t panel, Shape from, Shape to)
      : shape_(std::move(shape)), panel_(panel), from_(std::move(from)), to_(std::move(to)) {}

  Shape shape_;         ///< (O, I, KH, KW)
  std::int64_t panel_;  ///< outputs
  Shape from_, to_;     ///< strides of blocks
};

}  // namespace lockstep::kernels
