#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "data/pictures/picture.h"
#include "data/pictures/pixels.h"
#include "kernels/base/philox.h"
#include "kernels/pictures.h"

namespace lockstep::data {

/// Random numbers for one sample of one epoch: the same for any number of workers and ranks, and after a
/// restart.
class SampleRandom {
 public:
  SampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t sample)
      : philox_(seed, stream | static_cast<std::uint64_t>(epoch)),
        next_(static_cast<std::uint64_t>(sample) * most_draws) {}

  /// In [least, most).
  double uniform(double least, double most) {
    return least + (most - least) * (philox_.bits(next_++) * 0x1p-32);
  }
  int below(int bound) { return static_cast<int>(philox_.below(static_cast<std::uint32_t>(bound), next_++)); }

 private:
  static constexpr std::uint64_t stream = std::uint64_t{0x7069} << 48;  ///< of pictures, beside the epoch
  static constexpr std::uint64_t most_draws = 1024;                     ///< more than any list asks for

  Philox philox_;
  std::uint64_t next_;
};

// What a list of transforms is made of; all as torchvision's of nearly the same name.

/// To `size`, or to a shorter side of `shorter`; bilinear with antialiasing (`resize` in resample.h).
struct Resize {
  int shorter = 0;
  PictureSize size{};  ///< if shorter is 0
};
/// The middle; what reaches beyond the picture is 0.
struct CenterCrop {
  PictureSize size;
};
/// `padding` pixels of 0 on each side, then a random part of the picture's own size.
struct PadCrop {
  int padding = 0;
};
/// A random part of 8 to 100 % of the area with sides of 3:4 to 4:3, resized.
struct RandomResizedCrop {
  PictureSize size;
};
/// Left and right swapped, one time in two.
struct Flip {};
/// (value / 255 - mean) / deviation, by channel; one of each serves all channels.
struct Normalise {
  std::vector<float> mean;
  std::vector<float> deviation;
};

/// Of a picture that is resized to less than half: all its pixels, as torchvision has it, or where a JPEG
/// gives it in less time 1/2, 1/4 or 1/8 of them.
enum class Decoding { full, reduced };

using TransformStep = std::variant<Resize, CenterCrop, PadCrop, RandomResizedCrop, Flip, Normalise>;

/// What is done to each picture of a set, as typed: "random-resized-crop=224,flip,normalise=imagenet". Sizes
/// are N for a square or HxW. From bytes in HWC it makes floats in CHW, of value / 255 where nothing
/// normalises.
class Transform {
 public:
  Transform() = default;
  /// Empty: pixels / 255 as they are. UsageError names the step that is wrong and how it is spelled.
  explicit Transform(std::string_view list, Decoding decoding = Decoding::full);

  const std::vector<TransformStep>& steps() const { return steps_; }
  /// Of the result, for pictures of this size, or of any; none when that is not one size.
  std::optional<PictureSize> output_size(std::optional<PictureSize> pictures) const;
  /// UsageError when the means fit neither these channels nor any.
  void require_channels(int channels) const;

  /// `out`: channels x height x width of output_size. DataError from the reader, and when a picture does not
  /// come out in that size.
  void apply(PictureReader& picture, SampleRandom random, PictureSize size, std::span<float> out) const;
  /// The same short of what a GPU does as well: bytes in HWC, not normalised. True: left and right are still
  /// to be swapped.
  bool apply_to_bytes(PictureReader& picture, SampleRandom random, PictureSize size,
                      std::span<std::uint8_t> out) const;
  /// Whether it makes pictures neither larger nor smaller: then `cut` says all of it but how to normalise.
  bool only_cuts() const;
  kernels::PictureCut cut(PictureSize picture, SampleRandom random) const;
  /// One a channel, or one for all; none: value / 255.
  std::span<const PixelScale> scales() const { return scales_; }

 private:
  std::vector<TransformStep> steps_;
  Decoding decoding_ = Decoding::full;
  std::vector<PixelScale> scales_;  ///< by channel; one serves all channels
};

/// What the step makes of a picture of this size.
PictureSize resized_size(const Resize& step, PictureSize picture);

/// Where torchvision's RandomResizedCrop.get_params cuts a picture, from these random numbers: ten tries,
/// then the middle.
Rectangle random_part(PictureSize picture, SampleRandom& random);

}  // namespace lockstep::data
