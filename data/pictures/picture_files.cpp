#include "data/pictures/picture_files.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "data/built_in.h"
#include "data/folders.h"
#include "data/pictures/decode.h"
#include "data/pictures/picture_dataset.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

bool is_picture(const fs::path& path) {
  if (is_picture_name(path.string())) return true;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::array<char, 8> begin{};
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  return begins_as_picture(std::as_bytes(std::span(begin).first(static_cast<std::size_t>(file.gcount()))));
}

std::vector<std::string> pictures_below(const fs::path& folder) {
  std::vector<std::string> pictures;
  for (const std::string& one : folders_below(folder)) {
    for (const std::string& name : files_in(one)) {
      if (is_picture(fs::path(one) / name)) pictures.push_back((fs::path(one) / name).string());
    }
  }
  if (pictures.empty()) {
    throw DataError(fmt::format("{}: no JPEG or PNG pictures in it or below it", folder.string()));
  }
  std::ranges::sort(pictures);
  return pictures;
}

/// Pillow's weights of red, green and blue (ITU-R 601-2), in fixed point with 16 bits.
std::uint8_t grey_of(const std::uint8_t* rgb) {
  constexpr unsigned red = 19595;
  constexpr unsigned green = 38470;
  constexpr unsigned blue = 7471;
  constexpr unsigned half = 0x8000;
  return static_cast<std::uint8_t>((red * rgb[0] + green * rgb[1] + blue * rgb[2] + half) >> 16);
}

/// An RGB picture as a grey one.
class GreyReader final : public PictureReader {
 public:
  explicit GreyReader(std::unique_ptr<PictureReader> colours) : colours_(std::move(colours)) {}
  std::string name() const override { return colours_->name(); }
  PictureSize size() const override { return colours_->size(); }

  PicturePart read(const Rectangle& part, PictureSize least) override {
    PicturePart result = colours_->read(part, least);
    const PictureSize size = result.view.size;
    Picture grey(size, 1);
    for (int y = 0; y < size.height; ++y) {
      const std::uint8_t* from = result.view.row(y);
      std::uint8_t* to = grey.row(y);
      for (int x = 0; x < size.width; ++x) to[x] = grey_of(from + 3 * x);
    }
    result.owned = std::move(grey);
    result.view = result.owned.view();
    return result;
  }

 private:
  std::unique_ptr<PictureReader> colours_;
};

/// What is done to each: first to the size of the data set's pictures, which stay as they are.
std::string transforms_for(const PictureKind& kind, const std::string& list) {
  if (!kind.size) return list;
  const std::string fitted =
      fmt::format("resize={},crop={}x{}", std::max(kind.size->width, kind.size->height), kind.size->height,
                  kind.size->width);
  return list.empty() || list == "none" ? fitted : fitted + "," + list;
}

SampleSpec spec_for(const Transform& transform, const PictureKind& kind, const SampleSpec& targets) {
  SampleSpec spec = targets;
  const SampleSpec pictures = picture_spec(transform, kind.size, kind.channels, targets.num_classes);
  spec.input_dtype = pictures.input_dtype;
  spec.input_shape = pictures.input_shape;
  return spec;
}

}  // namespace

std::vector<std::string> find_pictures(std::span<const std::string> named) {
  std::vector<std::string> pictures;
  for (const std::string& name : named) {
    std::error_code error;
    if (!fs::exists(name, error)) {
      throw DataError(fmt::format("{}: {}", name, error ? error.message() : "no such file or folder"));
    }
    if (!fs::is_directory(name, error)) {
      pictures.push_back(name);
      continue;
    }
    for (std::string& below : pictures_below(name)) pictures.push_back(std::move(below));
  }
  return pictures;
}

PictureFiles::PictureFiles(std::vector<std::string> files, const PictureKind& kind, const SampleSpec& targets,
                           const DatasetOptions& options)
    : files_(std::move(files)),
      kind_(kind),
      transform_(transforms_for(kind, options.eval_transform)),
      seed_(options.seed),
      skips_corrupt_(options.skip_corrupt),
      spec_(spec_for(transform_, kind, targets)) {}

void PictureFiles::get(std::int64_t index, std::int64_t epoch, std::span<std::byte> input,
                       std::span<std::byte> target) const {
  write_no_target(spec_, target);
  try {
    read(index, epoch, input);
  } catch (const DataError& error) {
    if (!skips_corrupt_) throw;
    std::ranges::fill(input, std::byte{0});
    const std::lock_guard lock(mutex_);
    if (unreadable_.insert(index).second) log::warn("passed over: {}", error.what());
  }
}

std::vector<std::int64_t> PictureFiles::unreadable() const {
  const std::lock_guard lock(mutex_);
  return {unreadable_.begin(), unreadable_.end()};
}

void PictureFiles::read(std::int64_t index, std::int64_t epoch, std::span<std::byte> input) const {
  std::unique_ptr<PictureReader> picture = open_picture_file(files_[static_cast<std::size_t>(index)]);
  if (kind_.channels == 1) picture = std::make_unique<GreyReader>(std::move(picture));
  const PictureSize size{.width = static_cast<int>(spec_.input_shape[2]),
                         .height = static_cast<int>(spec_.input_shape[1])};
  const std::span<float> out(reinterpret_cast<float*>(input.data()), input.size() / sizeof(float));
  transform_.apply(*picture, SampleRandom(seed_, epoch, index), size, out);
}

}  // namespace lockstep::data
