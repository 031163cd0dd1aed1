#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "kernels/base/unique_fd.h"

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

/// A file that appears at its path whole or not at all: written under a name beside it, flushed to the disk,
/// renamed. Until `commit`, and when anything fails, an older file of that name stays as it is.
/// DeviceError (full disk, read-only folder, ...) names the file and the hint.
class AtomicFile {
 public:
  /// `mode`: its permissions, less the umask.
  explicit AtomicFile(std::filesystem::path path, unsigned mode = 0666);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void commit();

 private:
  [[noreturn]] void fail(const char* what, int error) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  UniqueFd fd_;
};

/// The whole of `text` into the file at `path`, by AtomicFile.
void write_file_atomically(const std::filesystem::path& path, std::string_view text, unsigned mode = 0666);

/// The whole text; empty when the file cannot be read.
std::string read_text(const std::filesystem::path& path);

/// The first line without its end; empty when the file cannot be read. For the small files of /proc and /sys.
std::string first_line(const std::filesystem::path& path);

}  // namespace lockstep
