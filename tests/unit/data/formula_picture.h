#pragma once

#include "data/pictures/picture.h"

namespace lockstep::data::testing {

/// The picture that tests/parity/make_picture_goldens.py shows to torchvision.
inline Picture formula_picture(PictureSize size, int channels) {
  Picture picture(size, channels);
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const int value = x * 7 + y * 13 + c * 29 + x * y / 5 + (x * x + 3 * y) % 17 * 9;
        picture.row(y)[x * channels + c] = static_cast<std::uint8_t>(value % 256);
      }
    }
  }
  return picture;
}

}  // namespace lockstep::data::testing
