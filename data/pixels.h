#pragma once

#include <array>
#include <span>

#include "data/picture.h"

namespace lockstep::data {

/// What each value of a byte becomes.
using PixelTable = std::array<float, 256>;

/// The pixels of `view` as floats, from HWC to CHW; `mirrored`: left and right swapped. `tables`: one a
/// channel, or one for all; none: float(value) / 255.0f, as torchvision's ToTensor, to the bit.
void to_floats(const PictureView& view, bool mirrored, std::span<const PixelTable> tables,
               std::span<float> out);

}  // namespace lockstep::data
