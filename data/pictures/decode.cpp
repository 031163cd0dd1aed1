#include "data/pictures/decode.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <initializer_list>

#include <fmt/format.h>

#include "data/files/fail.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"

namespace lockstep::data {
namespace {

constexpr std::array jpeg_begin{std::byte{0xff}, std::byte{0xd8}};
constexpr std::array png_begin{std::byte{0x89}, std::byte{'P'}, std::byte{'N'}, std::byte{'G'}};

bool begins_with(std::span<const std::byte> bytes, std::span<const std::byte> magic) {
  return bytes.size() >= magic.size() && std::ranges::equal(bytes.first(magic.size()), magic);
}

/// In any case.
bool ends_in_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return std::ranges::any_of(endings, [&](std::string_view ending) { return lower.ends_with(ending); });
}

}  // namespace

bool is_picture_name(std::string_view name) {
  return ends_in_any(name, {".jpg", ".jpeg", ".png"});
}

bool is_foreign_picture_name(std::string_view name) {
  return ends_in_any(name, {".bmp", ".pgm", ".ppm", ".tif", ".tiff", ".webp"});
}

void require_decodable(const std::string& name, std::uint64_t width, std::uint64_t height) {
  constexpr std::uint64_t most_pixels = 178'956'970;  // where Pillow suspects a decompression bomb
  if (width == 0 || height == 0 || width > most_pixels || height > most_pixels / width)
    throw DataError(
        fmt::format("{}: a picture of {}x{} pixels; 1 to {} are decoded", name, width, height, most_pixels));
}

std::unique_ptr<PictureReader> open_encoded(std::string name, EncodedBytes bytes) {
  if (begins_with(bytes.get(), jpeg_begin)) return open_jpeg(std::move(name), std::move(bytes));
  if (begins_with(bytes.get(), png_begin)) return open_png(std::move(name), std::move(bytes));
  throw DataError(fmt::format("{}: offset 0: {}", name,
                              bytes.get().empty() ? "an empty file" : "neither a JPEG nor a PNG picture"));
}

std::unique_ptr<PictureReader> open_picture_file(const std::filesystem::path& path) {
  const UniqueFd fd = open_file(path);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail(path, errno_message(errno));
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::read(fd.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, errno_message(errno));
    if (count == 0) fail(path, done, "it was cut while it was read");
    done += static_cast<std::size_t>(count);
  }
  return open_encoded(path.string(), EncodedBytes(std::move(bytes)));
}

bool begins_as_picture(std::span<const std::byte> bytes) {
  return begins_with(bytes, jpeg_begin) || begins_with(bytes, png_begin);
}

}  // namespace lockstep::data
