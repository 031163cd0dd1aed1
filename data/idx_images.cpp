#include "data/idx_images.h"

#include <cstring>
#include <string>

#include <fmt/format.h>

#include "data/idx.h"
#include "data/pixels.h"
#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSide = 28;
constexpr std::int64_t kClasses = 10;

fs::path found(const fs::path& file, const std::string& hint) {
  if (fs::exists(file) || fs::exists(file.string() + ".gz")) return file;
  throw DataError(fmt::format("{}: neither this file nor its .gz is there; {}", file.string(), hint));
}

class IdxImages final : public Dataset {
 public:
  IdxImages(const fs::path& images, const fs::path& labels, const UnpackCache& cache)
      : images_(images, 3, cache), labels_(labels, 1, cache), spec_(idx_images_spec()) {
    check_images();
    check_labels();
  }

  std::int64_t size() const override { return images_.shape()[0]; }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const auto sample = static_cast<std::size_t>(index);
    const std::size_t pixels = input.size() / sizeof(float);
    to_unit_floats(images_.elements().data() + sample * pixels,
                   {reinterpret_cast<float*>(input.data()), pixels});
    const auto label = std::to_integer<std::int64_t>(labels_.elements()[sample]);
    std::memcpy(target.data(), &label, sizeof label);
  }

 private:
  void check_images() const {
    const Shape& shape = images_.shape();
    if (shape[1] != kSide || shape[2] != kSide) {
      throw DataError(fmt::format("{}: offset 8: images of {}x{}, but {}x{} belong here",
                                  images_.path().string(), shape[1], shape[2], kSide, kSide));
    }
  }

  void check_labels() const {
    if (labels_.shape()[0] != size()) {
      throw DataError(fmt::format("{}: offset 4: {} labels, but {} has {} images", labels_.path().string(),
                                  labels_.shape()[0], images_.path().string(), size()));
    }
    const auto labels = labels_.elements();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (std::to_integer<std::int64_t>(labels[i]) >= kClasses) {
        throw DataError(fmt::format("{}: offset {}: label {}, but there are {} classes",
                                    labels_.path().string(), labels_.header_bytes() + i,
                                    std::to_integer<int>(labels[i]), kClasses));
      }
    }
  }

  IdxFile images_;
  IdxFile labels_;
  SampleSpec spec_;
};

}  // namespace

SampleSpec idx_images_spec() {
  return {.input_dtype = DType::f32,
          .input_shape = {1, kSide, kSide},
          .target_dtype = DType::i64,
          .target_shape = {},
          .num_classes = kClasses};
}

DatasetPtr open_idx_images(const fs::path& folder, Split split, const std::string& hint,
                           const UnpackCache& cache) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const fs::path images = found(folder / (prefix + "-images-idx3-ubyte"), hint);
  const fs::path labels = found(folder / (prefix + "-labels-idx1-ubyte"), hint);
  return std::make_shared<IdxImages>(images, labels, cache);
}

}  // namespace lockstep::data
