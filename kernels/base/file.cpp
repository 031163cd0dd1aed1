#include "kernels/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/descriptors.h"
#include "kernels/base/error.h"
#include "kernels/base/file_status.h"
#include "kernels/base/random.h"
#include "kernels/base/uninterrupted.h"

namespace lockstep {
namespace {

constexpr std::string_view temporary_ending = ".tmp";

const char* hint_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free space there or choose another folder";
    case EFBIG:
      return hint_of_too_large;
    case EROFS:
    case EACCES:
    case EPERM:
      return "choose a folder that you may write to";
    case ENOENT:
      return "make its folder first";
    case EEXIST:
    case ENOTDIR:
      return "a file, or a link that leads nowhere, is where a folder should be: choose another";
    default:
      return "check the disk and the folder";
  }
}

/// Hidden, beside the target, and unlike any other that is being written at the moment.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  return path.parent_path() /
         fmt::format(".{}.{}{}", path.filename().string(), random_hex(8), temporary_ending);
}

/// `what` is "open" or "map".
[[noreturn]] void fail_to(const char* what, const std::filesystem::path& path, int error) {
  const std::string place = fmt::format("{}: cannot {}: ", path.string(), what);
  if (error == ENOMEM || error == EAGAIN)
    throw ExhaustedError(place + errno_message(error) + "; raise ulimit -v, or the container's memory");
  if (error == EMFILE || error == ENFILE) throw ExhaustedError(place + obstacle_to_open(error));
  throw DataError(place + (error == ELOOP ? "it is a symbolic link" : errno_message(error)));
}

/// Of a regular file: a pipe does not block, and nothing else is taken for one.
UniqueFd open_regular(const std::filesystem::path& path, int flags, struct stat& status) {
  UniqueFd fd(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags); }));
  if (!fd || ::fstat(fd.get(), &status) != 0) fail_to("open", path, errno);
  if (!S_ISREG(status.st_mode)) {
    throw DataError(fmt::format("{}: is {}, not a file", path.string(), kind_name(status.st_mode)));
  }
  return fd;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  struct stat status {};
  const UniqueFd fd = open_regular(path, 0, status);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) fail_to("map", path, errno);
  bytes_ = {static_cast<const std::byte*>(address), size};
  guard_ = CutFileGuard(bytes_, path);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), guard_(std::move(other.guard_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(guard_, other.guard_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

FileReader::FileReader(std::filesystem::path path) : path_(std::move(path)) {
  struct stat status {};
  fd_ = open_regular(path_, O_NOFOLLOW, status);
  bytes_ = static_cast<std::uint64_t>(status.st_size);
}

void FileReader::read(std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = uninterrupted([&] { return ::read(fd_.get(), into.data(), into.size()); });
    if (got < 0) throw DataError(fmt::format("{}: cannot read: {}", path_.string(), errno_message(errno)));
    if (got == 0)
      throw DataError(fmt::format("{}: was cut while it was read: it had {} bytes", path_.string(), bytes_));
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

void read_in_pieces(const std::filesystem::path& path,
                    const std::function<void(std::span<const std::byte>)>& take) {
  constexpr std::uint64_t most = std::uint64_t{4} << 20;
  FileReader file(path);
  std::vector<std::byte> piece(std::min(file.bytes(), most));
  for (std::uint64_t left = file.bytes(); left > 0;) {
    const std::span now = std::span(piece).first(std::min(left, most));
    file.read(now);
    take(now);
    left -= now.size();
  }
}

AtomicFile::AtomicFile(std::filesystem::path path, unsigned mode)
    : path_(std::move(path)), temporary_(temporary_beside(path_)) {
  require_replaceable(path_);
  fd_ = UniqueFd(uninterrupted(
      [&] { return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode); }));
  if (!fd_) fail("create", errno);
}

AtomicFile::~AtomicFile() {
  if (fd_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = uninterrupted([&] { return ::write(fd_.get(), bytes.data(), bytes.size()); });
    if (written <= 0) fail("write", written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (uninterrupted([&] { return ::fsync(fd_.get()); }) != 0) fail("flush", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename", errno);
  fd_.reset();
  flush_folder(path_.parent_path());
}

void AtomicFile::fail(const char* what, int error) const {
  throw DeviceError(
      fmt::format("{}: cannot {}: {}; {}", path_.string(), what, errno_message(error), hint_for(error)));
}

void sweep_temporaries(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> leftovers;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') && name.ends_with(temporary_ending) && entry.is_regular_file(error)) {
      leftovers.push_back(entry.path());
    }
  }
  for (const std::filesystem::path& path : leftovers) std::filesystem::remove(path, error);
}

void flush_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder.empty() ? "." : folder;
  const UniqueFd fd(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  const auto flush = [&] { return ::fsync(fd.get()); };
  // EINVAL: a file system that cannot flush folders. EACCES: a folder that may be written, but not read.
  if (fd ? uninterrupted(flush) != 0 && errno != EINVAL : errno != EACCES) {
    throw DeviceError(
        fmt::format("{}: cannot flush: {}; {}", path.string(), errno_message(errno), hint_for(errno)));
  }
}

bool make_folders(const std::filesystem::path& path) {
  std::error_code error;
  if (path.empty() || std::filesystem::is_directory(path, error)) return false;
  make_folders(path.has_filename() ? path.parent_path() : path.parent_path().parent_path());
  const bool is_new = std::filesystem::create_directory(path, error);
  if (!is_new && error) {
    throw DeviceError(
        fmt::format("{}: cannot be made: {}; {}", path.string(), error.message(), hint_for(error.value())));
  }
  flush_folder(path.has_filename() ? path.parent_path() : path.parent_path().parent_path());
  return is_new;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text, unsigned mode) {
  AtomicFile file(path, mode);
  file.write(text);
  file.commit();
}

UniqueFd open_file(const std::filesystem::path& path) {
  struct stat status {};
  return open_regular(path, 0, status);
}

std::string whole_text(const std::filesystem::path& path) {
  const UniqueFd fd = open_file(path);
  std::string text;
  std::array<char, 4096> piece;  // files of /proc do not tell their size
  for (ssize_t got = 0; (got = ::read(fd.get(), piece.data(), piece.size())) != 0;) {
    if (got > 0) text.append(piece.data(), static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) {
      throw DataError(fmt::format("{}: cannot read: {}", path.string(), errno_message(errno)));
    }
  }
  return text;
}

std::string read_text(const std::filesystem::path& path) {
  try {
    return whole_text(path);
  } catch (const Error&) {
    return {};
  }
}

std::string first_line(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  return text.substr(0, text.find('\n'));
}

}  // namespace lockstep
