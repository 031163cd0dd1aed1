#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace lockstep {

/// A whole file, mapped read-only. DataError if it cannot be opened, is no regular file, or cannot be mapped.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace lockstep
