#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "data/datasets.h"
#include "data/files/unpack_cache.h"
#include "data/pictures/picture.h"
#include "kernels/base/shape.h"

namespace lockstep::data {

/// An array of unsigned bytes in IDX format, MNIST's: two zero bytes, 0x08 for u8, the number of dimensions,
/// their extents (big endian, 32 bits), the elements. DataError names the file, the offset and what is wrong
/// there.
class IdxFile {
 public:
  /// `path` itself or, if that is not there, `path` + ".gz", unpacked through `cache`. `rank`: the number of
  /// dimensions that it must have.
  IdxFile(const std::filesystem::path& path, std::size_t rank, const UnpackCache& cache);

  const std::filesystem::path& path() const { return path_; }  ///< of the file that was found
  const Shape& shape() const { return shape_; }
  std::span<const std::byte> elements() const { return contents_.bytes().subspan(header_bytes()); }
  std::size_t header_bytes() const { return 4 + 4 * shape_.rank(); }

 private:
  std::filesystem::path path_;
  FileBytes contents_;
  Shape shape_;
};

/// Of Fashion-MNIST and MNIST, which have one channel.
inline constexpr PictureSize idx_picture_size{28, 28};
inline constexpr std::int64_t idx_class_count = 10;

/// The four files of MNIST's naming (train-images-idx3-ubyte, t10k-labels-idx1-ubyte, ..., plain or .gz) in
/// `folder`. `hint`: what to do when they are not there.
PictureSetPtr open_idx_pictures(const std::filesystem::path& folder, Split split, const std::string& hint,
                                const UnpackCache& cache = UnpackCache());

}  // namespace lockstep::data
