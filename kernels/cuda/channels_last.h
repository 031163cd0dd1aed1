#pragma once

#include "kernels/layout.h"

namespace lockstep::kernels {

/// (N, C, H, W) with the channels of a pixel side by side, and (O, C, KH, KW) likewise: what tensor cores
/// read.
Layout channels_last(const Shape& shape);

/// Whether every element lies where `layout` would put it. An axis of extent 1 may have any stride: a picture
/// of one channel is plain and channels-last at once, and needs no reorder.
bool has_layout(const Layout& layout, const TensorDesc& desc);

}  // namespace lockstep::kernels
