#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kernels/base/activity.h"
#include "kernels/base/file.h"

namespace lockstep::data {

/// The contents of a file, mapped or, where they could not be kept on the disk, in memory.
class FileBytes {
 public:
  explicit FileBytes(MappedFile file) : bytes_(std::move(file)) {}
  explicit FileBytes(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  std::span<const std::byte> bytes() const;

 private:
  std::variant<MappedFile, std::vector<std::byte>> bytes_;
};

/// `$XDG_CACHE_HOME/lockstep`, else `~/.cache/lockstep`; empty if neither variable has an absolute path.
std::filesystem::path default_cache_folder();

/// Where in `folder` what was made of `file` is kept: a name by the file's path, size and time of change, and
/// `suffix`. DataError when there is no such file.
std::filesystem::path kept_path(const std::filesystem::path& folder, const std::filesystem::path& file,
                                const std::string& suffix);

/// What a gzip file of one member unpacks to, by its trailer, which has the size modulo 2^32: for files that
/// hold less than 4 GiB and whose contents tell no size of their own. DataError.
std::uint64_t gzip_contents_size(const std::filesystem::path& compressed);

/// Gzip files, each unpacked once per machine into a folder and mapped from there by every process and every
/// later run. A file that changed (size or time of modification) is unpacked anew. Where the folder cannot be
/// written, the contents are unpacked into memory, with one warning.
class UnpackCache {
 public:
  /// The size of the contents in bytes, from their header in `head`; throws DataError if that is wrong.
  using SizeOf = std::function<std::uint64_t(std::span<const std::byte> head)>;

  explicit UnpackCache(std::filesystem::path folder = default_cache_folder(), Activity* activity = nullptr)
      : folder_(std::move(folder)), activity_(activity) {}

  /// DataError if the file or its contents are damaged; nothing is kept then.
  FileBytes open(const std::filesystem::path& compressed, const SizeOf& size_of) const;

 private:
  FileBytes open_kept(const std::filesystem::path& compressed, const SizeOf& size_of) const;

  std::filesystem::path folder_;
  Activity* activity_;
};

}  // namespace lockstep::data
