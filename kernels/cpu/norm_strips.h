#pragma once

#include <algorithm>

#include "kernels/base/division.h"
#include "kernels/batch_norm.h"
#include "kernels/cpu/parallel.h"

namespace lockstep::kernels {

/// A strip, and where it begins in x and in what belongs to channels.
struct PlacedStrip {
  NormStrip strip;
  std::int64_t offset;   ///< in bytes
  std::int64_t channel;  ///< its first
  std::int64_t first;    ///< which element of its channels it begins with

  /// The part of it that lies among the first `elements` of its channels.
  NormStrip among_first(std::int64_t elements) const {
    NormStrip part = strip;
    const std::int64_t left = std::clamp<std::int64_t>(elements - first, 0, strip.elements_of_channel());
    if (strip.images > 1) {
      part.images = left / strip.pixels;  // all of an image or nothing is padding
    } else {
      part.pixels = left;
    }
    return part;
  }
};

/// A tensor cut in strips by its shape and layout alone, group by group, so that sums are the same for any
/// team.
class Strips {
 public:
  explicit Strips(const TensorDesc& x) : view_(channel_view(x)), dtype_(x.dtype) {
    pixels_ = std::max(least_pixels, strip_elements / std::max<std::int64_t>(view_.lanes, 1));
    segments_ = std::max<std::int64_t>(1, parts_of(view_.pixels, pixels_));
    const std::int64_t image_elements = std::max<std::int64_t>(view_.pixels * view_.lanes, 1);
    images_ = std::clamp<std::int64_t>(joined_elements / image_elements, 1,
                                       std::max<std::int64_t>(view_.images, 1));
  }

  const ChannelView& view() const { return view_; }
  std::int64_t of_group() const { return parts_of(view_.images, images_) * segments_; }
  /// Of a channel, in the strip with this number in its group.
  std::int64_t elements_of_channel(std::int64_t strip) const {
    if (segments_ > 1) return std::min(pixels_, view_.pixels - strip % segments_ * pixels_);
    return std::min(images_, view_.images - strip * images_) * view_.pixels;
  }
  std::int64_t count() const { return view_.groups * of_group(); }

  PlacedStrip operator[](std::int64_t index) const {
    const std::int64_t segment = index % segments_;
    const std::int64_t image = index % of_group() / segments_ * images_;
    const std::int64_t group = index / of_group();
    const std::int64_t first = segment * pixels_;
    const std::int64_t channel = group * view_.lanes;
    const std::int64_t offset = image * view_.image_stride + group * view_.group_stride + first * view_.lanes;
    return {.strip = {.pixels = std::min(pixels_, view_.pixels - first),
                      .lanes = view_.lanes,
                      .channels = std::min(view_.lanes, view_.channels - channel),
                      .dtype = dtype_,
                      .images = std::min(images_, view_.images - image),
                      .image_stride = view_.image_stride},
            .offset = offset * static_cast<std::int64_t>(size_of(dtype_)),
            .channel = channel,
            .first = image * view_.pixels + first};
  }

  /// `body(strip, index)` for all, in their order.
  template <class Body>
  void for_each(const Body& body) const {
    parallel_ranges(count(), view_.elements(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body((*this)[i], i);
    });
  }
  /// From the last to the first: what the pass before read last is still in the cache.
  template <class Body>
  void for_each_backwards(const Body& body) const {
    parallel_ranges(count(), view_.elements(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = end; i-- > begin;) body((*this)[i]);
    });
  }

 private:
  static constexpr std::int64_t strip_elements = 1 << 15;  // in the second cache, for all tiles of its lanes
  static constexpr std::int64_t least_pixels = 64;
  static constexpr std::int64_t joined_elements =
      1 << 11;  // of small images: worth a call, and few terms of a sum in f32

  ChannelView view_;
  DType dtype_;
  std::int64_t pixels_ = 0;    ///< of a strip
  std::int64_t segments_ = 0;  ///< strips of an image, 1 where several images are one strip
  std::int64_t images_ = 0;    ///< of a strip
};

/// Two numbers for each lane of each strip, in the workspace.
class Partials {
 public:
  explicit Partials(const Strips& strips) : strips_(strips), lanes_(strips.view().lanes) {}

  std::size_t bytes() const { return static_cast<std::size_t>(2 * lanes_ * strips_.count()) * sizeof(float); }
  float* first(float* workspace, std::int64_t strip) const { return workspace + 2 * lanes_ * strip; }
  float* second(float* workspace, std::int64_t strip) const { return first(workspace, strip) + lanes_; }

  /// `body(channel, visit)`, where visit(f) calls f(first, second, elements) for the channel's strips in
  /// order, as far as they lie among its first `elements`.
  template <class Body>
  void for_channels(float* workspace, std::int64_t elements, const Body& body) const {
    const std::int64_t channels = strips_.view().channels;
    parallel_ranges(channels, channels * strips_.of_group(), cache_line_floats,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t channel = begin; channel < end; ++channel) {
                        body(channel, [&](const auto& take) { visit(workspace, channel, elements, take); });
                      }
                    });
  }

 private:
  template <class Take>
  void visit(float* workspace, std::int64_t channel, std::int64_t elements, const Take& take) const {
    const std::int64_t begin = channel / lanes_ * strips_.of_group();
    const std::int64_t lane = channel % lanes_;
    for (std::int64_t strip = 0; strip < strips_.of_group() && elements > 0; ++strip) {
      const std::int64_t of_strip = std::min(elements, strips_.elements_of_channel(strip));
      const std::int64_t i = begin + strip;
      take(static_cast<double>(first(workspace, i)[lane]), static_cast<double>(second(workspace, i)[lane]),
           static_cast<double>(of_strip));
      elements -= of_strip;
    }
  }

  Strips strips_;
  std::int64_t lanes_;
};

}  // namespace lockstep::kernels
