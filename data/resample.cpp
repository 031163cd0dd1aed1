#include "data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/resample_rows.h"

namespace lockstep::data {
namespace {

/// Of `count` pixels that stand for `length` pixels from `begin` on, of a line of `available`.
Weights triangle_weights(double begin, double length, int available, int count) {
  const double scale = length / count;
  const double support = std::max(scale, 1.0);
  Weights weights{.most = static_cast<int>(std::ceil(support)) * 2 + 1, .ranges = {}, .values = {}};
  weights.ranges.resize(static_cast<std::size_t>(count));
  weights.values.resize(static_cast<std::size_t>(count) * static_cast<std::size_t>(weights.most));
  std::vector<double> shares(static_cast<std::size_t>(weights.most));
  for (std::size_t pixel = 0; pixel < weights.ranges.size(); ++pixel) {
    const double center = begin + (static_cast<double>(pixel) + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support + 0.5), available);
    const auto taps = static_cast<std::size_t>(std::max(end - first, 0));
    double sum = 0;
    for (std::size_t i = 0; i < taps; ++i) {
      const double distance = (static_cast<double>(i) + first - center + 0.5) * (1.0 / support);
      shares[i] = std::max(1.0 - std::abs(distance), 0.0);
      sum += shares[i];
    }
    std::int32_t* values = weights.values.data() + pixel * static_cast<std::size_t>(weights.most);
    for (std::size_t i = 0; i < taps && sum != 0; ++i) {
      values[i] = static_cast<std::int32_t>(0.5 + shares[i] / sum * (1 << precision_bits));
    }
    weights.ranges[pixel] = {first, static_cast<int>(taps)};
  }
  return weights;
}

/// One row of the result from `count` rows above each other; short stretches at a time, whose sums stay in
/// registers.
[[gnu::always_inline]] inline void mix_rows(const std::uint8_t* from, std::ptrdiff_t row_bytes,
                                            const std::int32_t* values, int count, std::uint8_t* to,
                                            std::ptrdiff_t bytes) {
  constexpr std::ptrdiff_t stretch = 64;
  std::int32_t sums[stretch];
  for (std::ptrdiff_t begin = 0; begin < bytes; begin += stretch) {
    const std::ptrdiff_t length = std::min(stretch, bytes - begin);
    std::fill_n(sums, stretch, one_half);
    const std::uint8_t* at = from + begin;
    for (int i = 0; i < count; ++i, at += row_bytes) {
      if (length == stretch) {
        for (std::ptrdiff_t x = 0; x < stretch; ++x) sums[x] += values[i] * at[x];
      } else {
        for (std::ptrdiff_t x = 0; x < length; ++x) sums[x] += values[i] * at[x];
      }
    }
    for (std::ptrdiff_t x = 0; x < length; ++x) to[begin + x] = to_byte(sums[x]);
  }
}

[[gnu::target("avx2")]] void mix_rows_avx2(const std::uint8_t* from, std::ptrdiff_t row_bytes,
                                           const std::int32_t* values, int count, std::uint8_t* to,
                                           std::ptrdiff_t bytes) {
  mix_rows(from, row_bytes, values, count, to, bytes);
}

/// `view`, whose rows begin with row `first_row` of the picture that `weights` speak of.
Picture resize_columns(const PictureView& view, int first_row, const Weights& weights, int height) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  Picture result({view.size.width, height}, view.channels);
  const std::ptrdiff_t bytes = result.row_bytes();
  for (int y = 0; y < height; ++y) {
    const auto [first, count] = weights.ranges[static_cast<std::size_t>(y)];
    const std::uint8_t* from = view.row(first - first_row);
    const std::int32_t* values = weights.of(static_cast<std::size_t>(y));
    (has_avx2 ? mix_rows_avx2 : mix_rows)(from, view.row_bytes, values, count, result.row(y), bytes);
  }
  return result;
}

/// Pillow 13 begins with the direction that saves more work: inferred from its results, which the goldens of
/// tests/unit/data hold.
bool columns_come_first(const PicturePart& part, PictureSize size) {
  return size.height < part.height && 2 * (part.width - size.width) < part.height - size.height;
}

Picture copy(const PictureView& view) {
  Picture result(view.size, view.channels);
  for (int y = 0; y < view.size.height; ++y)
    std::memcpy(result.row(y), view.row(y), static_cast<std::size_t>(result.row_bytes()));
  return result;
}

}  // namespace

Picture resize(const PicturePart& part, PictureSize size) {
  const PictureView& view = part.view;
  const bool same_width = part.left == 0 && part.width == size.width && size.width == view.size.width;
  const bool same_height = part.top == 0 && part.height == size.height && size.height == view.size.height;
  if (same_width && same_height) return copy(view);
  const Weights down = triangle_weights(part.top, part.height, view.size.height, size.height);
  const Weights along = triangle_weights(part.left, part.width, view.size.width, size.width);
  if (same_width) return resize_columns(view, 0, down, size.height);
  if (same_height) return resize_rows(view, along, size.width);
  if (columns_come_first(part, size))
    return resize_rows(resize_columns(view, 0, down, size.height).view(), along, size.width);
  const int first = down.ranges.front().first;
  const int end = down.ranges.back().first + down.ranges.back().count;
  const PictureView rows =
      view.part({.left = 0, .top = first, .width = view.size.width, .height = end - first});
  return resize_columns(resize_rows(rows, along, size.width).view(), first, down, size.height);
}

}  // namespace lockstep::data
