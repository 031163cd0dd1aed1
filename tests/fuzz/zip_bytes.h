#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::tests {

/// The lowest `bytes` bytes of a number, the least first.
inline std::string little_endian(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> 8 * i);
  return text;
}

/// A ZIP file of these names and contents, stored as they are (PKWARE's APPNOTE).
inline std::string zip_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string file;
  std::string directory;
  for (const auto& [name, contents] : entries) {
    const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(contents.data()), contents.size());
    const std::string common = little_endian(0, 8) + little_endian(crc, 4) +
                               little_endian(contents.size(), 4) + little_endian(contents.size(), 4) +
                               little_endian(name.size(), 2) + little_endian(0, 2);
    directory += "PK\1\2" + little_endian(20, 2) + little_endian(20, 2) + common + little_endian(0, 8) +
                 little_endian(0, 2) + little_endian(file.size(), 4) + name;
    file += "PK\3\4" + little_endian(20, 2) + common + name + contents;
  }
  return file + directory + "PK\5\6" + little_endian(0, 4) + little_endian(entries.size(), 2) +
         little_endian(entries.size(), 2) + little_endian(directory.size(), 4) +
         little_endian(file.size(), 4) + little_endian(0, 2);
}

}  // namespace lockstep::tests
