#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "kernels/base/unique_fd.h"

namespace lockstep {

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

}  // namespace lockstep
