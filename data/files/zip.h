#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/file.h"

namespace lockstep::data {

/// A ZIP archive whose entries are stored without compression, as PyTorch writes its checkpoints (PKWARE's
/// APPNOTE, ZIP64 included), mapped read-only. DataError names the file, the entry and what is wrong.
class ZipFile {
 public:
  struct Entry {
    std::string name;
    std::uint64_t header = 0;  ///< where its local header begins in the file
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
  };

  explicit ZipFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<Entry>& entries() const { return entries_; }
  /// Null for none.
  const Entry* find(const std::string& name) const;
  /// The contents, whose checksum is right.
  std::span<const std::byte> contents(const Entry& entry) const;
  /// Where they begin in the file.
  std::uint64_t offset_of(const Entry& entry) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::vector<Entry> entries_;
};

}  // namespace lockstep::data
