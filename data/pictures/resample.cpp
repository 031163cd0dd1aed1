#include "data/pictures/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/pictures/resample_rows.h"

namespace lockstep::data {
namespace {

/// `length` pixels from `begin` on, of a line of `available`, are made into `size`, of which the window is
/// wanted.
struct Line {
  double begin = 0;
  double length = 0;
  int available = 0;
  int size = 0;
  int window_begin = 0;
  int window_length = 0;

  bool stays() const { return begin == 0 && length == size && size == available; }
};

Weights triangle_weights(const Line& line) {
  const double scale = line.length / line.size;
  const double support = std::max(scale, 1.0);
  Weights weights{.most = static_cast<int>(std::ceil(support)) * 2 + 1, .ranges = {}, .values = {}};
  const auto count = static_cast<std::size_t>(line.window_length);
  weights.ranges.resize(count);
  weights.values.resize(count * static_cast<std::size_t>(weights.most));
  std::vector<double> shares(static_cast<std::size_t>(weights.most));
  for (std::size_t pixel = 0; pixel < count; ++pixel) {
    const double center = line.begin + (static_cast<double>(pixel) + line.window_begin + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support + 0.5), line.available);
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

/// Row `y` of the result of `weights`, of a view that begins with row `first_row`.
void mix(const PictureView& view, int first_row, const Weights& weights, int y, std::uint8_t* to) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  const auto row = static_cast<std::size_t>(y);
  const auto [first, count] = weights.ranges[row];
  const std::ptrdiff_t bytes = std::ptrdiff_t{view.size.width} * view.channels;
  (has_avx2 ? mix_rows_avx2 : mix_rows)(view.row(first - first_row), view.row_bytes, weights.of(row), count,
                                        to, bytes);
}

/// Pillow 13 begins with the direction that saves more work: inferred from its results, which the goldens of
/// tests/unit/data hold.
bool columns_come_first(const PicturePart& part, PictureSize size) {
  return size.height < part.height && 2 * (part.width - size.width) < part.height - size.height;
}

/// The pixels of a line from which its window is made.
struct Span {
  int begin = 0;
  int length = 0;
};

/// Of a line that does not stay: `weights` then count from the span's begin.
Span narrow(Weights& weights) {
  const int begin = weights.ranges.front().first;
  const Span span{begin, std::max(weights.ranges.back().end() - begin, 0)};
  for (Weights::Range& range : weights.ranges) range.first -= begin;
  return span;
}

}  // namespace

Resampler::Resampler(const PicturePart& part, PictureSize size, const Rectangle& window)
    : view_(part.view), height_(window.height) {
  const PictureView& view = part.view;
  const Line columns{part.left, part.width, view.size.width, size.width, window.left, window.width};
  const Line rows{part.top, part.height, view.size.height, size.height, window.top, window.height};
  Span across{window.left, window.width};
  Span down{window.top, window.height};
  if (!rows.stays()) down = narrow(down_.emplace(triangle_weights(rows)));
  if (!columns.stays()) {
    Weights weights = triangle_weights(columns);
    across = narrow(weights);
    along_.emplace(std::move(weights), across.length, view.channels);
  }
  rows_first_ = along_ && down_ && !columns_come_first(part, size);
  const int rows_kept = rows_first_ ? 4 * (down_->most + 2) : 2;
  if (along_) resized_ = Picture({window.width, rows_kept}, view.channels);
  if (down_) mixed_ = Picture({rows_first_ || !along_ ? window.width : across.length, 2}, view.channels);
  take_view(part, {across.begin, down.begin, across.length, down.length});
}

/// Where rows come first, those yet to come are used as they come; else all are read at once.
void Resampler::take_view(const PicturePart& part, const Rectangle& used) {
  const PictureView& view = part.view;
  if (part.rows == nullptr) {
    view_ = view.part(used);
  } else if (!rows_first_) {
    read_ = Picture(view.size, view.channels);
    for (int y = 0; y < view.size.height; ++y) part.rows->next_row(read_.row(y));
    view_ = read_.view().part(used);
  } else {
    rows_ = part.rows;
    read_ = Picture({view.size.width, 2}, view.channels);
    first_byte_ = std::ptrdiff_t{used.left} * view.channels;
    view_ = {.size = used.size(), .channels = view.channels};
    for (int y = 0; y < used.top; ++y) rows_->next_row(read_.row(0));
  }
}

const std::uint8_t* Resampler::next_row() {
  const int y = next_++;
  if (rows_first_) return next_of_resized(y);
  if (along_) return next_of_mixed(y);
  if (!down_) return view_.row(y);
  mix(view_, 0, *down_, y, mixed_.row(0));
  return mixed_.row(0);
}

/// Of the view, in order; two of them stay.
const std::uint8_t* Resampler::source_row(int y) {
  if (rows_ == nullptr) return view_.row(y);
  std::uint8_t* row = read_.row(y % 2);
  rows_->next_row(row);
  return row + first_byte_;
}

/// For two rows more in resized_; those before `keep_from` have been used.
void Resampler::make_room(int keep_from) {
  if (resized_rows_ + 2 - first_resized_ <= resized_.view().size.height) return;
  const int kept = std::max(resized_rows_ - keep_from, 0);
  const std::ptrdiff_t row_bytes = resized_.row_bytes();
  std::memmove(resized_.row(0), resized_.row(resized_rows_ - kept - first_resized_),
               static_cast<std::size_t>(kept * row_bytes));
  first_resized_ = resized_rows_ - kept;
}

const std::uint8_t* Resampler::next_of_resized(int y) {
  const auto [first, count] = down_->ranges[static_cast<std::size_t>(y)];
  while (resized_rows_ < first + count) {
    make_room(first);
    const bool is_last = resized_rows_ + 1 == view_.size.height;
    const std::uint8_t* upper = source_row(resized_rows_);
    const std::uint8_t* lower = is_last ? upper : source_row(resized_rows_ + 1);
    const int at = resized_rows_ - first_resized_;
    along_->resize(upper, lower, resized_.row(at), resized_.row(is_last ? at : at + 1));
    resized_rows_ += is_last ? 1 : 2;
  }
  mix(resized_.view(), first_resized_, *down_, y, mixed_.row(0));
  return mixed_.row(0);
}

/// Rows are resized by two.
const std::uint8_t* Resampler::next_of_mixed(int y) {
  if (y % 2 == 0) {
    const std::uint8_t* sources[2];
    for (int i = 0; i < 2; ++i) {
      const int row = std::min(y + i, height_ - 1);
      if (down_) mix(view_, 0, *down_, row, mixed_.row(i));
      sources[i] = down_ ? mixed_.row(i) : view_.row(row);
    }
    along_->resize(sources[0], sources[1], resized_.row(0), resized_.row(1));
  }
  return resized_.row(y % 2);
}

Picture resize(const PicturePart& part, PictureSize size, const Rectangle& window) {
  Resampler resampler(part, size, window);
  Picture result(window.size(), part.view.channels);
  for (int y = 0; y < window.height; ++y)
    std::memcpy(result.row(y), resampler.next_row(), static_cast<std::size_t>(result.row_bytes()));
  return result;
}

Picture resize(const PicturePart& part, PictureSize size) {
  return resize(part, size, {.width = size.width, .height = size.height});
}

}  // namespace lockstep::data
