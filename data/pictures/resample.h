#pragma once

#include <optional>

#include "data/pictures/picture.h"
#include "data/pictures/resample_rows.h"

namespace lockstep::data {

/// `part` resized to `size`, bilinear with antialiasing, of which a window is made row by row: to the byte
/// what Pillow's Image.resize(BILINEAR) gives of the cropped picture when the part is the whole view, and so
/// what torchvision gives for pictures of Pillow. A triangle whose base is two of the larger pixels weighs
/// what lies under it, in fixed point with 22 bits, along rows and along columns in Pillow's order, rounded
/// to 8 bits after each.
class Resampler {
 public:
  /// `window`: of the resized picture. `part` outlives the resampler.
  Resampler(const PicturePart& part, PictureSize size, const Rectangle& window);

  /// The next row of the window, from the top on. Valid until the next but one is made.
  const std::uint8_t* next_row();

 private:
  void take_view(const PicturePart& part, const Rectangle& used);
  const std::uint8_t* next_of_resized(int y);
  const std::uint8_t* next_of_mixed(int y);
  const std::uint8_t* source_row(int y);
  void make_room(int keep_from);

  PictureView view_;                 ///< what the window is made of
  const int height_;                 ///< of the window
  int next_ = 0;                     ///< row of the window
  std::optional<RowResizer> along_;  ///< none where the width stays
  std::optional<Weights> down_;      ///< none where the height stays
  bool rows_first_ = false;          ///< rows are made shorter or longer first, as they are needed
  RowSource* rows_ = nullptr;        ///< gives the rows of view_, where they do not lie in memory
  std::ptrdiff_t first_byte_ = 0;    ///< of view_ in those
  Picture read_;                     ///< from rows_
  Picture resized_;                  ///< along rows
  int first_resized_ = 0;            ///< row of view_ that the first of resized_ is of
  int resized_rows_ = 0;             ///< of view_ that are made
  Picture mixed_;                    ///< along columns
};

/// The whole window at once.
Picture resize(const PicturePart& part, PictureSize size, const Rectangle& window);
Picture resize(const PicturePart& part, PictureSize size);

}  // namespace lockstep::data
