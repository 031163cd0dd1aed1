#include "data/pictures/picture_dataset.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/log.h"

namespace lockstep::data {
namespace {

Transform transform_of(const DatasetOptions& options, Split split) {
  const bool trains = split == Split::train;
  try {
    return trains ? Transform(options.transform, Decoding::reduced) : Transform(options.eval_transform);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--{}: {}", trains ? "transform" : "eval-transform", error.what()));
  }
}

/// Pictures that could not be read, each named once in a process.
class SkippedPictures {
 public:
  void add(std::int64_t index, const char* reason) {
    const std::lock_guard lock(mutex_);
    if (!indices_.insert(index).second) return;
    log::warn("sample {} is skipped, the next good one taken in its place ({} so far): {}", index,
              indices_.size(), reason);
  }

 private:
  std::mutex mutex_;
  std::set<std::int64_t> indices_;
};

/// Inputs as floats, or as rows of which a GPU makes them: `spec` says which.
class PictureDataset final : public Dataset {
 public:
  PictureDataset(PictureSetPtr pictures, Transform transform, std::uint64_t seed, bool skips_corrupt,
                 SampleSpec spec, std::int64_t first_stored = 0)
      : pictures_(std::move(pictures)),
        transform_(std::move(transform)),
        seed_(seed),
        skips_corrupt_(skips_corrupt),
        spec_(std::move(spec)),
        first_stored_(first_stored),
        picture_size_{.width = static_cast<int>(spec_.pictures->picture[2]),
                      .height = static_cast<int>(spec_.pictures->picture[1])} {}

  std::int64_t size() const override { return pictures_->size(); }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t epoch, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const SampleRandom random(seed_, epoch, index);
    const std::int64_t taken = skips_corrupt_ ? read_next_good(index, random, input) : index;
    if (!skips_corrupt_) read(index, random, input);
    const std::int64_t label = pictures_->label(taken);
    std::memcpy(target.data(), &label, sizeof label);
  }

  DatasetPtr as_bytes() const override { return with(*spec_.pictures, 0); }

  DatasetPtr as_kept(std::int64_t first) const override {
    const auto stored = pictures_->picture_size();
    const bool fits = first + size() <= std::numeric_limits<std::int32_t>::max();
    if (!stored || !fits || !transform_.only_cuts() || skips_corrupt_) return nullptr;
    kernels::PicturesToFloats op = *spec_.pictures;
    op.source = {stored->height, stored->width};
    return with(op, first);
  }

  void each_content(const TakeBytes& take) const override {
    constexpr std::int64_t most_labels = 1 << 16;
    const std::int64_t apart = 1 + (size() - 1) / most_labels;
    std::vector<std::int64_t> labels;
    for (std::int64_t index = 0; index < size(); index += apart) labels.push_back(pictures_->label(index));
    take(std::as_bytes(std::span(labels)));
  }

  void read_file(std::int64_t index, const TakeBytes& take) const override {
    try {
      if (!pictures_->picture_size()) return pictures_->read_encoded(index, take);
      const PictureSize stored = *pictures_->picture_size();
      std::vector<std::uint8_t> pixels(static_cast<std::size_t>(stored.width) *
                                       static_cast<std::size_t>(stored.height) *
                                       static_cast<std::size_t>(pictures_->channels()));
      read_pixels(index, stored, pixels);
      take(std::as_bytes(std::span(pixels)));
    } catch (const DataError&) {
      if (!skips_corrupt_) throw;
    }
  }

  std::int64_t kept() const override { return spec_.pictures->has_store() ? size() : 0; }

  void read_kept(std::int64_t first, std::span<std::byte> items) const override {
    const PictureSize stored = *pictures_->picture_size();
    const std::size_t bytes = spec_.kept_bytes();
    for (std::int64_t index = first; !items.empty(); ++index, items = items.subspan(bytes)) {
      const std::span pixels(reinterpret_cast<std::uint8_t*>(items.data()), bytes);
      read_pixels(index, stored, pixels);
    }
  }

 private:
  DatasetPtr with(const kernels::PicturesToFloats& op, std::int64_t first) const {
    SampleSpec spec = spec_;
    spec.input_dtype = DType::u8;
    spec.input_shape = {op.row_bytes()};
    spec.pictures = op;
    return std::make_shared<PictureDataset>(pictures_, transform_, seed_, skips_corrupt_, std::move(spec),
                                            first);
  }

  /// As the set has them.
  void read_pixels(std::int64_t index, PictureSize stored, std::span<std::uint8_t> pixels) const {
    Transform().apply_to_bytes(*pictures_->open(index), SampleRandom(seed_, 0, index), stored, pixels);
  }

  void read(std::int64_t index, const SampleRandom& random, std::span<std::byte> input) const {
    if (spec_.pictures->has_store()) {
      kernels::PictureCut cut = transform_.cut(*pictures_->picture_size(), random);
      cut.stored = static_cast<std::int32_t>(first_stored_ + index);
      std::memcpy(input.data(), &cut, sizeof cut);
      return;
    }
    const auto picture = pictures_->open(index);
    if (spec_.input_dtype == DType::u8) return read_bytes(*picture, random, input);
    const std::span<float> out(reinterpret_cast<float*>(input.data()), input.size() / sizeof(float));
    transform_.apply(*picture, random, picture_size_, out);
  }

  void read_bytes(PictureReader& picture, const SampleRandom& random, std::span<std::byte> row) const {
    const auto bytes = static_cast<std::size_t>(spec_.pictures->picture.elements());
    const std::span<std::uint8_t> out(
        reinterpret_cast<std::uint8_t*>(row.data()) + sizeof(kernels::PictureCut), bytes);
    const bool mirrored = transform_.apply_to_bytes(picture, random, picture_size_, out);
    const kernels::PictureCut cut{
        .end_row = picture_size_.height, .end_column = picture_size_.width, .mirrored = mirrored ? 1 : 0};
    std::memcpy(row.data(), &cut, sizeof cut);
  }

  std::int64_t read_next_good(std::int64_t index, const SampleRandom& random,
                              std::span<std::byte> input) const {
    constexpr std::int64_t most_in_a_row = 100;  // more are no accident
    for (std::int64_t ahead = 0;; ++ahead) {
      const std::int64_t candidate = (index + ahead) % size();
      try {
        read(candidate, random, input);
        return candidate;
      } catch (const DataError& error) {
        if (ahead + 1 >= std::min(most_in_a_row, size())) throw;
        skipped_.add(candidate, error.what());
      }
    }
  }

  const PictureSetPtr pictures_;
  const Transform transform_;
  const std::uint64_t seed_;
  const bool skips_corrupt_;
  const SampleSpec spec_;
  const std::int64_t first_stored_;  ///< number of the set's first picture, where a device keeps them
  const PictureSize picture_size_;   ///< of samples
  mutable SkippedPictures skipped_;
};

/// Of pictures that are cut already.
kernels::PicturesToFloats floats_of(const Transform& transform, int channels, PictureSize size) {
  kernels::PicturesToFloats op{.picture = {channels, size.height, size.width}};
  const auto scales = transform.scales();
  for (std::size_t c = 0; c < op.mean.size() && !scales.empty(); ++c) {
    const PixelScale& scale = scales[scales.size() == 1 ? 0 : c];
    op.mean[c] = scale.mean;
    op.deviation[c] = scale.deviation;
  }
  return op;
}

}  // namespace

SampleSpec picture_spec(const Transform& transform, std::optional<PictureSize> picture_size, int channels,
                        std::int64_t num_classes) {
  transform.require_channels(channels);
  const auto size = transform.output_size(picture_size);
  if (!size) {
    throw UsageError(
        "--transform and --eval-transform: pictures of any size must all come out in one: add crop=N or "
        "random-resized-crop=N");
  }
  return {.input_dtype = DType::f32,
          .input_shape = {channels, size->height, size->width},
          .target_dtype = DType::i64,
          .target_shape = {},
          .num_classes = num_classes,
          .pictures = floats_of(transform, channels, *size)};
}

DatasetPtr with_transform(PictureSetPtr pictures, const DatasetOptions& options, Split split) {
  Transform transform = transform_of(options, split);
  SampleSpec spec =
      picture_spec(transform, pictures->picture_size(), pictures->channels(), pictures->num_classes());
  return std::make_shared<PictureDataset>(std::move(pictures), std::move(transform), options.seed,
                                          options.skip_corrupt, std::move(spec));
}

}  // namespace lockstep::data
