#include "data/pictures/idx.h"

#include <string>

#include <fmt/format.h>

#include "data/files/fail.h"
#include "kernels/base/error.h"
#include "kernels/base/file_status.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr unsigned unsigned_bytes = 0x08;

unsigned byte_at(std::span<const std::byte> bytes, std::size_t offset) {
  return std::to_integer<unsigned>(bytes[offset]);
}

std::uint32_t big_endian_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | byte_at(bytes, offset + i);
  return value;
}

void check_magic(const fs::path& path, std::span<const std::byte> head, std::size_t rank) {
  if (head.size() < 4) fail(path, head.size(), "it ends within the magic number: truncated");
  if (byte_at(head, 0) != 0 || byte_at(head, 1) != 0) fail(path, 0, "the magic number is not IDX's");
  if (byte_at(head, 2) != unsigned_bytes) {
    fail(path, 2, fmt::format("elements of type 0x{:02x}, not unsigned bytes (0x08)", byte_at(head, 2)));
  }
  if (byte_at(head, 3) != rank) {
    fail(
        path, 3,
        fmt::format("{} dimensions, but {} belong here: images and labels swapped?", byte_at(head, 3), rank));
  }
}

Shape read_shape(const fs::path& path, std::span<const std::byte> head, std::size_t rank) {
  check_magic(path, head, rank);
  std::vector<std::int64_t> extents;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::size_t offset = 4 + 4 * axis;
    if (head.size() < offset + 4) fail(path, head.size(), "it ends within its dimensions: truncated");
    extents.push_back(big_endian_at(head, offset));
    if (extents.back() == 0) fail(path, offset, "a dimension of 0");
  }
  return Shape(std::move(extents));
}

std::uint64_t size_in_header(const fs::path& path, std::span<const std::byte> head, std::size_t rank) {
  std::uint64_t elements = 1;
  for (const std::int64_t extent : read_shape(path, head, rank)) {
    if (__builtin_mul_overflow(elements, static_cast<std::uint64_t>(extent), &elements) ||
        elements >> 62 != 0) {
      fail(path, 4, "its dimensions are too large");
    }
  }
  return 4 + 4 * rank + elements;
}

void check_size(const fs::path& path, std::span<const std::byte> contents, std::size_t rank) {
  const std::uint64_t declared = size_in_header(path, contents, rank);
  if (contents.size() < declared) {
    fail(path, contents.size(),
         fmt::format("it ends here, but its header tells {} bytes: truncated", declared));
  }
  if (contents.size() > declared)
    fail(path, declared,
         fmt::format("{} bytes behind the end that its header tells", contents.size() - declared));
}

fs::path compressed_or_plain(const fs::path& path) {
  return fs::exists(status_at(path)) ? path : fs::path(path.string() + ".gz");
}

FileBytes read(const fs::path& path, std::size_t rank, const UnpackCache& cache) {
  if (path.extension() != ".gz") return FileBytes(MappedFile(path));
  return cache.open(path, [&](std::span<const std::byte> head) { return size_in_header(path, head, rank); });
}

constexpr int image_side = idx_picture_size.width;
constexpr std::int64_t class_count = idx_class_count;

fs::path found(const fs::path& file, const std::string& hint) {
  if (fs::exists(status_at(file)) || fs::exists(status_at(file.string() + ".gz"))) return file;
  throw DataError(fmt::format("{}: neither this file nor its .gz is there; {}", file.string(), hint));
}

class IdxPictures final : public PictureSet {
 public:
  IdxPictures(const fs::path& images, const fs::path& labels, const UnpackCache& cache)
      : images_(images, 3, cache), labels_(labels, 1, cache) {
    check_images();
    check_labels();
  }

  std::int64_t size() const override { return images_.shape()[0]; }
  int channels() const override { return 1; }
  std::int64_t num_classes() const override { return class_count; }
  std::optional<PictureSize> picture_size() const override { return idx_picture_size; }

  std::int64_t label(std::int64_t index) const override {
    return std::to_integer<std::int64_t>(labels_.elements()[static_cast<std::size_t>(index)]);
  }

  std::unique_ptr<PictureReader> open(std::int64_t index) const override {
    constexpr std::size_t pixels = image_side * image_side;
    const std::byte* first = images_.elements().data() + static_cast<std::size_t>(index) * pixels;
    return std::make_unique<PictureInMemory>(
        PictureView{reinterpret_cast<const std::uint8_t*>(first), idx_picture_size, channels(), image_side});
  }

 private:
  void check_images() const {
    const Shape& shape = images_.shape();
    if (shape[1] != image_side || shape[2] != image_side) {
      throw DataError(fmt::format("{}: offset 8: images of {}x{}, but {}x{} belong here",
                                  images_.path().string(), shape[1], shape[2], image_side, image_side));
    }
  }

  void check_labels() const {
    if (labels_.shape()[0] != size()) {
      throw DataError(fmt::format("{}: offset 4: {} labels, but {} has {} images", labels_.path().string(),
                                  labels_.shape()[0], images_.path().string(), size()));
    }
    const auto labels = labels_.elements();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (std::to_integer<std::int64_t>(labels[i]) >= class_count) {
        throw DataError(fmt::format("{}: offset {}: label {}, but there are {} classes",
                                    labels_.path().string(), labels_.header_bytes() + i,
                                    std::to_integer<int>(labels[i]), class_count));
      }
    }
  }

  IdxFile images_;
  IdxFile labels_;
};

}  // namespace

IdxFile::IdxFile(const fs::path& path, std::size_t rank, const UnpackCache& cache)
    : path_(compressed_or_plain(path)), contents_(read(path_, rank, cache)) {
  check_size(path_, contents_.bytes(), rank);
  shape_ = read_shape(path_, contents_.bytes(), rank);
}

PictureSetPtr open_idx_pictures(const fs::path& folder, Split split, const std::string& hint,
                                const UnpackCache& cache) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const fs::path images = found(folder / (prefix + "-images-idx3-ubyte"), hint);
  const fs::path labels = found(folder / (prefix + "-labels-idx1-ubyte"), hint);
  return std::make_shared<IdxPictures>(images, labels, cache);
}

}  // namespace lockstep::data
