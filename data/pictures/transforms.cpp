#include "data/pictures/transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "data/pictures/resample.h"
#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

/// Python's round(): halves go to the even neighbour, as here in the rounding mode that nobody changes.
int rounded(double value) {
  return static_cast<int>(std::nearbyint(value));
}

/// Where torchvision's CenterCrop cuts: a picture that is too small is padded on both sides first.
int middle(int whole, int part) {
  return part > whole ? -((part - whole) / 2) : rounded((whole - part) / 2.0);
}

/// `part` of `view`, with 0 for what lies beyond.
Picture cut_beyond(const PictureView& view, const Rectangle& part) {
  Picture result(part.size(), view.channels);
  const int left = std::clamp(part.left, 0, view.size.width);
  const int right = std::clamp(part.left + part.width, left, view.size.width);
  const auto bytes = static_cast<std::size_t>(right - left) * static_cast<std::size_t>(view.channels);
  for (int y = 0; y < part.height; ++y) {
    std::memset(result.row(y), 0, static_cast<std::size_t>(result.row_bytes()));
    const int from = part.top + y;
    if (from < 0 || from >= view.size.height || bytes == 0) continue;
    std::memcpy(result.row(y) + (left - part.left) * view.channels, view.row(from) + left * view.channels,
                bytes);
  }
  return result;
}

/// A picture under way through a list of transforms. It is read and resized as late as can be, for then it is
/// known which part is needed, and how large. Left and right are swapped last of all: where a part is cut
/// meanwhile is counted from the other side.
class Canvas {
 public:
  Canvas(PictureReader& reader, Decoding decoding)
      : reader_(reader),
        decoding_(decoding),
        region_{.width = reader.size().width, .height = reader.size().height} {}

  PictureSize size() const { return region_.size(); }
  void mirror() { mirrored_ = !mirrored_; }

  void crop(Rectangle part) {
    if (mirrored_) part.left = region_.width - part.left - part.width;
    const bool within = part.left >= 0 && part.top >= 0 && part.left + part.width <= region_.width &&
                        part.top + part.height <= region_.height;
    if (within) {
      region_ = {region_.left + part.left, region_.top + part.top, part.width, part.height};
    } else {
      make_pixels();
      take(cut_beyond(part_.view.part(region_), part));
    }
  }

  void resize(PictureSize size) {
    if (size == region_.size()) return;
    constexpr std::int64_t most_pixels = std::int64_t{1} << 28;
    if (std::int64_t{size.width} * size.height > most_pixels)
      throw DataError(fmt::format("{}: {}x{} pixels would become {}x{}", reader_.name(), region_.width,
                                  region_.height, size.width, size.height));
    if (is_read_) {
      make_pixels();
      part_.view = part_.view.part(region_);
      part_.width = region_.width;
      part_.height = region_.height;
    } else {
      part_ = reader_.begin_read(region_, decoding_ == Decoding::full ? region_.size() : size);
      is_read_ = true;
    }
    resized_ = size;
    region_ = {.width = size.width, .height = size.height};
  }

  /// As it is before it is mirrored, and whether that is still to be done.
  bool write_bytes(std::span<std::uint8_t> out) {
    if (!resized_) make_pixels();
    const PictureView view = resized_ ? PictureView{} : part_.view.part(region_);
    std::optional<Resampler> rows;
    if (resized_) rows.emplace(part_, *resized_, region_);
    const std::size_t bytes = out.size() / static_cast<std::size_t>(region_.height);
    for (int y = 0; y < region_.height; ++y)
      std::memcpy(out.data() + static_cast<std::size_t>(y) * bytes, rows ? rows->next_row() : view.row(y),
                  bytes);
    return mirrored_;
  }

  void write(std::span<const PixelScale> scales, std::span<float> out) {
    if (!resized_) {
      make_pixels();
      return to_floats(part_.view.part(region_), mirrored_, scales, out);
    }
    Resampler rows(part_, *resized_, region_);
    const auto [width, height] = region_.size();
    const std::ptrdiff_t plane = std::ptrdiff_t{width} * height;
    for (int y = 0; y < height; ++y)
      row_to_floats(rows.next_row(), width, part_.view.channels, mirrored_, scales,
                    out.data() + std::ptrdiff_t{y} * width, plane);
  }

 private:
  /// So that the region is one of pixels in memory.
  void make_pixels() {
    if (!is_read_) {
      part_ = reader_.read(region_, region_.size());
      is_read_ = true;
      region_ = {.width = region_.width, .height = region_.height};
    } else if (resized_) {
      take(data::resize(part_, *resized_, region_));
    }
  }

  void take(Picture picture) {
    part_ = {.owned = std::move(picture)};
    part_.view = part_.owned.view();
    region_ = {.width = part_.view.size.width, .height = part_.view.size.height};
    is_read_ = true;
    resized_.reset();
  }

  PictureReader& reader_;
  const Decoding decoding_;
  Rectangle region_;  ///< of what the reader has; of what part_ has once that is read, after it is resized
  bool is_read_ = false;
  std::optional<PictureSize> resized_;  ///< what becomes of part_
  bool mirrored_ = false;
  PicturePart part_;
};

/// The same path for a picture that is nowhere resized: what a Canvas would show of it.
class CutPath {
 public:
  explicit CutPath(PictureSize picture)
      : window_{.width = picture.width, .height = picture.height}, shown_(window_) {}

  PictureSize size() const { return window_.size(); }
  void mirror() { mirrored_ = !mirrored_; }
  void resize(PictureSize) { throw std::logic_error("a picture that is resized is more than cut"); }

  void crop(const Rectangle& part) {
    const int left = mirrored_ ? window_.width - part.left - part.width : part.left;
    window_ = {window_.left + left, window_.top + part.top, part.width, part.height};
    shown_ = common(shown_, window_);
  }

  kernels::PictureCut cut() const {
    return {.row = window_.top,
            .column = window_.left,
            .first_row = shown_.top,
            .first_column = shown_.left,
            .end_row = shown_.top + shown_.height,
            .end_column = shown_.left + shown_.width,
            .mirrored = mirrored_ ? 1 : 0};
  }

 private:
  static Rectangle common(const Rectangle& a, const Rectangle& b) {
    const int left = std::max(a.left, b.left);
    const int top = std::max(a.top, b.top);
    return {left, top, std::max(0, std::min(a.left + a.width, b.left + b.width) - left),
            std::max(0, std::min(a.top + a.height, b.top + b.height) - top)};
  }

  Rectangle window_;  ///< of the picture; may reach beyond
  Rectangle shown_;   ///< what no crop has cut off
  bool mirrored_ = false;
};

template <class Canvas>
struct Apply {
  Canvas& canvas;
  SampleRandom& random;

  void operator()(const Resize& step) { canvas.resize(resized_size(step, canvas.size())); }
  void operator()(const CenterCrop& step) {
    const PictureSize whole = canvas.size();
    canvas.crop({middle(whole.width, step.size.width), middle(whole.height, step.size.height),
                 step.size.width, step.size.height});
  }
  void operator()(const PadCrop& step) {
    const PictureSize whole = canvas.size();
    const int top = random.below(2 * step.padding + 1) - step.padding;
    const int left = random.below(2 * step.padding + 1) - step.padding;
    canvas.crop({left, top, whole.width, whole.height});
  }
  void operator()(const RandomResizedCrop& step) {
    canvas.crop(random_part(canvas.size(), random));
    canvas.resize(step.size);
  }
  void operator()(const Flip&) {
    if (random.below(2) == 1) canvas.mirror();
  }
  void operator()(const Normalise&) {}  // by scales, where pixels become floats
};

/// The picture of that name, which must come out in that size.
void draw(Canvas& canvas, std::span<const TransformStep> steps, SampleRandom random, const std::string& name,
          PictureSize size) {
  for (const TransformStep& step : steps) std::visit(Apply<Canvas>{canvas, random}, step);
  if (canvas.size() == size) return;
  throw DataError(fmt::format("{}: {}x{} pixels and not {}x{} after the transforms: end them in crop=N", name,
                              canvas.size().width, canvas.size().height, size.width, size.height));
}

}  // namespace

PictureSize resized_size(const Resize& step, PictureSize picture) {
  if (step.shorter == 0) return step.size;
  const auto longer = [&](int length, int shorter) {
    return static_cast<int>(std::min<std::int64_t>(std::int64_t{step.shorter} * length / shorter, 1 << 30));
  };
  if (picture.width <= picture.height) return {step.shorter, longer(picture.height, picture.width)};
  return {longer(picture.width, picture.height), step.shorter};
}

Rectangle random_part(PictureSize picture, SampleRandom& random) {
  constexpr double least_ratio = 3.0 / 4.0;
  constexpr double most_ratio = 4.0 / 3.0;
  const double area = static_cast<double>(picture.width) * picture.height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double wanted = area * random.uniform(0.08, 1.0);
    const double ratio = std::exp(random.uniform(std::log(least_ratio), std::log(most_ratio)));
    const int width = rounded(std::sqrt(wanted * ratio));
    const int height = rounded(std::sqrt(wanted / ratio));
    if (width < 1 || height < 1 || width > picture.width || height > picture.height) continue;
    const int top = random.below(picture.height - height + 1);
    const int left = random.below(picture.width - width + 1);
    return {left, top, width, height};
  }
  PictureSize part = picture;
  const double ratio = static_cast<double>(picture.width) / picture.height;
  if (ratio < least_ratio) part.height = rounded(picture.width / least_ratio);
  if (ratio > most_ratio) part.width = rounded(picture.height * most_ratio);
  return {(picture.width - part.width) / 2, (picture.height - part.height) / 2, part.width, part.height};
}

void Transform::apply(PictureReader& picture, SampleRandom random, PictureSize size,
                      std::span<float> out) const {
  Canvas canvas(picture, decoding_);
  draw(canvas, steps_, random, picture.name(), size);
  canvas.write(scales_, out);
}

bool Transform::only_cuts() const {
  return std::ranges::none_of(steps_, [](const TransformStep& step) {
    return std::holds_alternative<Resize>(step) || std::holds_alternative<RandomResizedCrop>(step);
  });
}

kernels::PictureCut Transform::cut(PictureSize picture, SampleRandom random) const {
  CutPath path(picture);
  for (const TransformStep& step : steps_) std::visit(Apply<CutPath>{path, random}, step);
  return path.cut();
}

bool Transform::apply_to_bytes(PictureReader& picture, SampleRandom random, PictureSize size,
                               std::span<std::uint8_t> out) const {
  Canvas canvas(picture, decoding_);
  draw(canvas, steps_, random, picture.name(), size);
  return canvas.write_bytes(out);
}

}  // namespace lockstep::data
