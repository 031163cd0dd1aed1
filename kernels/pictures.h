#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kernels/op.h"

namespace lockstep::kernels {

/// Which part of a picture a sample shows. Pixels beyond `first` and `end`, which lie in the picture, are 0.
struct PictureCut {
  std::int32_t stored = 0;  ///< number of the picture, where there is a store
  std::int32_t row = 0;     ///< of the picture, at the top of the sample
  std::int32_t column = 0;
  std::int32_t first_row = 0;
  std::int32_t first_column = 0;
  std::int32_t end_row = 0;
  std::int32_t end_column = 0;
  std::int32_t mirrored = 0;  ///< left and right are swapped, last of all
};
static_assert(sizeof(PictureCut) == 32);

/// Pixels of 8 bits, channels innermost, to (value / 255 - mean) / deviation, to the bit what
/// data/pictures/pixels.h makes of them: y (N, C, H, W). A row of `rows` (N, bytes) is a sample's PictureCut,
/// and behind it the sample's pixels as they are cut, unless `stored` (pictures, bytes) has those.
struct PicturesToFloats {
  static constexpr std::string_view name = "pictures_to_floats";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { rows, stored };
  enum Out : std::size_t { y };

  Shape picture{};                     ///< of a sample: C (1 or 3), H, W
  Shape source{};                      ///< of a stored picture: H, W; rank 0: there is no store
  std::array<float, 3> mean{0, 0, 0};  ///< by channel
  std::array<float, 3> deviation{1, 1, 1};
  DType to = DType::f32;

  bool operator==(const PicturesToFloats&) const = default;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("picture", picture);
    visit("source", source);
    visit("normalise", std::string_view(normalisation()));
    visit("to", name_of(to));
  }

  bool has_store() const { return source.rank() > 0; }
  /// Of the picture that a cut is from.
  std::int64_t source_height() const { return has_store() ? source[0] : picture[1]; }
  std::int64_t source_width() const { return has_store() ? source[1] : picture[2]; }
  std::int64_t stored_bytes() const { return picture[0] * source_height() * source_width(); }
  /// Of a sample in `rows`: a multiple of what a cut is aligned to.
  std::int64_t row_bytes() const;
  std::string normalisation() const;  ///< "mean:mean:mean/deviation:deviation:deviation"

  Types infer(TypeSpan in) const;
};

}  // namespace lockstep::kernels
