#pragma once

#include "data/picture.h"

namespace lockstep::data {

/// `part` resized to `size`, bilinear with antialiasing: to the byte what Pillow's Image.resize(BILINEAR)
/// gives of the cropped picture when the part is the whole view, and so what torchvision gives for pictures
/// of Pillow. A triangle whose base is two of the larger pixels weighs what lies under it, in fixed point
/// with 22 bits, along rows and along columns in Pillow's order, rounded to 8 bits after each.
Picture resize(const PicturePart& part, PictureSize size);

}  // namespace lockstep::data
