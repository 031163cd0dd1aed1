#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace lockstep::tests {

/// The header of an IDX file of unsigned bytes.
inline std::string idx_header(std::initializer_list<std::uint32_t> extents) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(extents.size())};
  for (const std::uint32_t extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(extent >> shift);
  }
  return bytes;
}

inline std::string idx_images(std::uint32_t count) {
  std::string bytes = idx_header({count, 28, 28});
  for (std::size_t i = 0; i < count * 28u * 28u; ++i) bytes += static_cast<char>(i * 7 % 256);
  return bytes;
}

inline std::string idx_labels(std::uint32_t count) {
  std::string bytes = idx_header({count});
  for (std::uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 10);
  return bytes;
}

inline void write_gzip(const std::filesystem::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  const int written = gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  if (gzclose(file) != Z_OK || written != static_cast<int>(bytes.size()))
    throw std::runtime_error("gzip failed");
}

}  // namespace lockstep::tests
