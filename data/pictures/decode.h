#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/pictures/picture.h"

namespace lockstep::data {

/// The bytes of an encoded picture, a reader's own or those of a mapped file, which outlives it.
class EncodedBytes {
 public:
  explicit EncodedBytes(std::vector<std::byte> owned) : owned_(std::move(owned)), bytes_(owned_) {}
  explicit EncodedBytes(std::span<const std::byte> mapped) : bytes_(mapped) {}

  std::span<const std::byte> get() const { return bytes_; }

 private:
  std::vector<std::byte> owned_;
  std::span<const std::byte> bytes_;
};

/// Whether the name ends in .jpg, .jpeg or .png, in any case.
bool is_picture_name(std::string_view name);
/// Whether torchvision's ImageFolder takes such a name for a picture, and we do not: .bmp, .webp, ...
bool is_foreign_picture_name(std::string_view name);

/// A JPEG or PNG picture, by its first bytes, with three channels (RGB): grey is spread over them, CMYK is
/// converted as Pillow does, transparency is left out, of 16 bits the upper 8 are taken, but of grey
/// alone what is above 255 becomes 255, and what EXIF says of rotation is not heeded: all as by torchvision's
/// ImageFolder. Only the part that is read is decoded, of a JPEG at 1/2, 1/4 or 1/8 where `least` allows it.
/// Damaged data is a DataError: "<name>: <reason>".
std::unique_ptr<PictureReader> open_encoded(std::string name, EncodedBytes bytes);

/// The same of a file, which is read whole.
std::unique_ptr<PictureReader> open_picture_file(const std::filesystem::path& path);

/// Whether these first bytes are those of a JPEG or PNG picture.
bool begins_as_picture(std::span<const std::byte> bytes);

// By format; the header is read at once.
std::unique_ptr<PictureReader> open_jpeg(std::string name, EncodedBytes bytes);
std::unique_ptr<PictureReader> open_png(std::string name, EncodedBytes bytes);

/// 8, 4, 2 or 1: so much smaller in each direction a JPEG is decoded of which `part` is wanted at `least`.
int reduction_for(const Rectangle& part, PictureSize least);

/// DataError for a picture without pixels or with more than Pillow would decode.
void require_decodable(const std::string& name, std::uint64_t width, std::uint64_t height);

}  // namespace lockstep::data
