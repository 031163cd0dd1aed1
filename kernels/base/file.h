#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/base/cut_file_guard.h"
#include "kernels/base/error.h"
#include "kernels/base/unique_fd.h"

namespace lockstep {

/// For EFBIG.
inline constexpr const char* hint_of_too_large =
    "raise ulimit -f, or choose a file system that takes larger files";

/// The system has no memory or descriptor left for a file, which itself may be sound: also where a DataError
/// is what a function tells of files.
struct ExhaustedError : DeviceError {
  using DeviceError::DeviceError;
};

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
  CutFileGuard guard_;
};

/// A regular file, read from its beginning; a link is not followed. DataError names the file, also when it
/// ends before what its size promised.
class FileReader {
 public:
  explicit FileReader(std::filesystem::path path);

  std::uint64_t bytes() const { return bytes_; }
  /// Fills `into` with the next bytes.
  void read(std::span<std::byte> into);

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
  std::uint64_t bytes_ = 0;
};

/// `take` gets the whole file in pieces of a few MiB.
void read_in_pieces(const std::filesystem::path& path,
                    const std::function<void(std::span<const std::byte>)>& take);

/// A file that appears at its path whole or not at all: written under a name beside it, flushed to the disk,
/// renamed. Until `commit`, and when anything fails, an older file of that name stays as it is. What is no
/// file (a device, a FIFO) is never replaced. DeviceError (full disk, read-only folder, ...) names the file
/// and the hint.
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

/// Removes what an AtomicFile of a killed process left in `folder`. For a caller that is the folder's only
/// writer.
void sweep_temporaries(const std::filesystem::path& folder);

/// Makes the folder and those above it, and flushes what holds a new one. False if it was there. DeviceError.
bool make_folders(const std::filesystem::path& path);
/// Flushes what the folder lists to the disk. DeviceError.
void flush_folder(const std::filesystem::path& folder);

/// The whole of `text` into the file at `path`, by AtomicFile.
void write_file_atomically(const std::filesystem::path& path, std::string_view text, unsigned mode = 0666);

/// For a reader of its own. Does not wait for a FIFO's other end; DataError names what is no file.
UniqueFd open_file(const std::filesystem::path& path);

/// The whole text. DataError names the file and why it cannot be read.
std::string whole_text(const std::filesystem::path& path);

/// The whole text; empty when the file cannot be read, or is none (a FIFO, a device).
std::string read_text(const std::filesystem::path& path);

/// The first line without its end; empty when the file cannot be read. For the small files of /proc and /sys.
std::string first_line(const std::filesystem::path& path);

}  // namespace lockstep
