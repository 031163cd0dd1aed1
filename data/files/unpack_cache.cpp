#include "data/files/unpack_cache.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "data/files/node_lock.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

/// Where the contents of one file are kept: all entries of a path share a prefix, each state of the file has
/// one.
struct Entry {
  fs::path folder;
  std::string prefix;
  std::string name;

  fs::path path() const { return folder / name; }
  fs::path lock() const { return folder / (prefix + ".lock"); }
};

Entry entry_for(const fs::path& folder, const fs::path& compressed) {
  const std::string name =
      kept_path(folder, compressed, "-" + compressed.stem().string()).filename().string();
  return {folder, name.substr(0, name.find('-')), name};
}

/// None if nothing is kept, or what is kept was cut or damaged: then it is unpacked again.
std::optional<FileBytes> kept_whole(const fs::path& path, const UnpackCache::SizeOf& size_of) {
  try {
    MappedFile file(path);
    if (size_of(file.bytes()) == file.bytes().size()) return FileBytes(std::move(file));
  } catch (const DataError&) {
  }
  return std::nullopt;
}

/// Whether it is of the file that the entry is of: its contents, whole or (hidden) in the making.
bool is_of(const Entry& entry, const std::string& name) {
  return name.starts_with(entry.prefix + "-") || name.starts_with("." + entry.prefix + "-");
}

/// Behind another process that unpacks the same file.
UniqueFd lock(const Entry& entry, Activity::Work& waiting) {
  constexpr Seconds limit{60};
  const auto bytes_kept = [&entry] {
    return bytes_of_files(entry.folder, [&entry](const std::string& name) { return is_of(entry, name); });
  };
  return lock_in_turn(entry.lock(), limit, bytes_kept, waiting);
}

/// Contents of earlier states of the file, and parts that a killed process left. Called under the lock. Young
/// contents stay: another host with this home may map them, whose file of the same path has another time.
void remove_stale(const Entry& entry) {
  constexpr std::chrono::hours young{24};
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(entry.folder, ignored)) {
    const std::string name = file.path().filename().string();
    if (!is_of(entry, name) || name == entry.name) continue;
    const bool is_part = name.starts_with('.');
    if (is_part || file.last_write_time(ignored) < fs::file_time_type::clock::now() - young)
      fs::remove(file.path(), ignored);
  }
}

constexpr std::size_t piece_bytes = 256 * 1024;
constexpr std::size_t most_in_memory = std::size_t{1} << 30;

struct Close {
  void operator()(gzFile_s* file) const noexcept { gzclose_r(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, Close>;

GzipFile open_gzip(const std::filesystem::path& path) {
  UniqueFd fd = open_file(path);
  GzipFile file(gzdopen(fd.get(), "rb"));
  if (!file) throw DataError(fmt::format("{}: cannot open: {}", path.string(), errno_message(ENOMEM)));
  fd.release();
  gzbuffer(file.get(), piece_bytes);
  if (gzdirect(file.get()) != 0)
    throw DataError(fmt::format("{}: offset 0: not in gzip format", path.string()));
  return file;
}

/// zlib's messages repeat the path, and are vague about a file that merely ends too soon.
void require_sound(const std::filesystem::path& path, gzFile_s* file) {
  int code = Z_OK;
  std::string_view reason = gzerror(file, &code);
  if (code == Z_OK || code == Z_STREAM_END) return;
  if (code == Z_BUF_ERROR) {
    throw DataError(fmt::format("{}: offset {}: the compressed data ends too soon: truncated", path.string(),
                                std::filesystem::file_size(path)));
  }
  const std::size_t colon = reason.rfind(": ");
  if (colon != std::string_view::npos) reason.remove_prefix(colon + 2);
  throw DataError(fmt::format("{}: before offset {}: {}", path.string(), gzoffset(file), reason));
}

/// Inflates a gzip file and hands its contents on, piece by piece in order. DataError with the offset in the
/// compressed file if it is missing, damaged or truncated.
void gunzip(const std::filesystem::path& path, const std::function<void(std::span<const std::byte>)>& sink) {
  const GzipFile file = open_gzip(path);
  std::vector<std::byte> piece(piece_bytes);
  while (true) {
    const int count = gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()));
    require_sound(path, file.get());
    if (count <= 0) return;
    sink(std::span(piece).first(static_cast<std::size_t>(count)));
  }
}

/// Unpacks and checks the contents against the size in their header.
void unpack(const fs::path& compressed, const UnpackCache::SizeOf& size_of, Activity* activity,
            const std::function<void(std::span<const std::byte>)>& sink) {
  Activity::Work work(activity, "unpacking " + compressed.string());
  std::optional<std::uint64_t> size;
  std::uint64_t seen = 0;
  gunzip(compressed, [&](std::span<const std::byte> piece) {
    if (!size) size = size_of(piece);
    seen += piece.size();
    if (seen > *size) {
      throw DataError(
          fmt::format("{}: offset {} of the unpacked data: bytes behind the end that its header tells",
                      compressed.string(), *size));
    }
    sink(piece);
    work.advance(seen, std::max<std::uint64_t>(*size, 1));
  });
  if (!size) size = size_of({});
  if (seen < *size) {
    throw DataError(
        fmt::format("{}: offset {} of the unpacked data: it ends here, but its header tells {} bytes",
                    compressed.string(), seen, *size));
  }
}

FileBytes unpack_into_memory(const fs::path& compressed, const UnpackCache::SizeOf& size_of,
                             Activity* activity) {
  std::vector<std::byte> bytes;
  unpack(compressed, size_of, activity, [&](auto piece) {
    if (bytes.size() + piece.size() > most_in_memory) {
      throw DeviceError(fmt::format("{}: unpacked it has more than {} bytes, which do not go into memory",
                                    compressed.string(), most_in_memory));
    }
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return FileBytes(std::move(bytes));
}

void warn_once(const std::string& reason) {
  static std::once_flag once;
  std::call_once(once, [&reason] {
    log::warn(
        "cannot keep unpacked data: {}; it is unpacked into memory at every start "
        "(set XDG_CACHE_HOME to a folder that you may write to)",
        reason);
  });
}

}  // namespace

std::span<const std::byte> FileBytes::bytes() const {
  if (const auto* file = std::get_if<MappedFile>(&bytes_)) return file->bytes();
  return std::get<std::vector<std::byte>>(bytes_);
}

fs::path default_cache_folder() {
  // The standard has relative paths ignored.
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return fs::path(cache) / "lockstep";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return fs::path(home) / ".cache/lockstep";
  }
  return {};
}

fs::path kept_path(const fs::path& folder, const fs::path& file, const std::string& suffix) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0)
    throw DataError(fmt::format("{}: cannot open: {}", file.string(), errno_message(errno)));
  return folder / fmt::format("{}-{}-{}.{:09}{}",
                              Sha256().update(fs::canonical(file).string()).hex().substr(0, 16),
                              status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, suffix);
}

std::uint64_t gzip_contents_size(const fs::path& compressed) {
  constexpr std::size_t least = 18;  // header and trailer
  const MappedFile file(compressed);
  if (file.bytes().size() < least)
    throw DataError(
        fmt::format("{}: offset {}: too short for gzip", compressed.string(), file.bytes().size()));
  std::uint64_t size = 0;
  for (std::size_t i = 1; i <= 4; ++i)
    size = size << 8 | std::to_integer<std::uint64_t>(file.bytes()[file.bytes().size() - i]);
  return size;
}

FileBytes UnpackCache::open(const fs::path& compressed, const SizeOf& size_of) const {
  try {
    return open_kept(compressed, size_of);
  } catch (const ExhaustedError&) {
    throw;  // nor has memory room for them
  } catch (const DeviceError& error) {
    warn_once(error.what());
  }
  return unpack_into_memory(compressed, size_of, activity_);
}

FileBytes UnpackCache::open_kept(const fs::path& compressed, const SizeOf& size_of) const {
  if (folder_.empty()) throw DeviceError("neither XDG_CACHE_HOME nor HOME is set to an absolute path");
  const Entry entry = entry_for(folder_, compressed);
  if (auto kept = kept_whole(entry.path(), size_of)) return std::move(*kept);

  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw DeviceError(fmt::format("{}: cannot create: {}", folder_.string(), error.message()));
  const UniqueFd held = [&] {
    Activity::Work waiting(activity_,
                           fmt::format("waiting for another process that unpacks {}", compressed.string()));
    return lock(entry, waiting);
  }();
  if (auto kept = kept_whole(entry.path(), size_of)) return std::move(*kept);
  remove_stale(entry);
  AtomicFile file(entry.path());
  unpack(compressed, size_of, activity_, [&file](auto piece) { file.write(piece); });
  file.commit();
  return FileBytes(MappedFile(entry.path()));
}

}  // namespace lockstep::data
