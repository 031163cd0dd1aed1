#include "kernels/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep {
namespace {

const char* hint_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free space there or choose another folder";
    case EROFS:
    case EACCES:
    case EPERM:
      return "choose a folder that you may write to";
    case ENOENT:
      return "make its folder first";
    default:
      return "check the disk and the folder";
  }
}

/// Hidden, beside the target, and unlike any other that is being written at the moment.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  static std::atomic<unsigned> count{0};
  return path.parent_path() / fmt::format(".{}.{}-{}.tmp", path.filename().string(), ::getpid(), count++);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const auto fail = [&path](const char* what) {
    throw DataError(fmt::format("{}: cannot {}: {}", path.string(), what, errno_message(errno)));
  };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) fail("open");
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail("stat");
  if (!S_ISREG(status.st_mode)) throw DataError(fmt::format("{}: not a regular file", path.string()));
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) fail("map");
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

AtomicFile::AtomicFile(std::filesystem::path path, unsigned mode)
    : path_(std::move(path)),
      temporary_(temporary_beside(path_)),
      fd_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)) {
  if (!fd_) fail("create", errno);
}

AtomicFile::~AtomicFile() {
  if (fd_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write", written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_.get()) != 0) fail("flush", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename", errno);
  fd_.reset();
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const UniqueFd directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory && ::fsync(directory.get()) != 0 && errno != EINVAL) fail("flush the folder of", errno);
}

void AtomicFile::fail(const char* what, int error) const {
  throw DeviceError(
      fmt::format("{}: cannot {}: {}; {}", path_.string(), what, errno_message(error), hint_for(error)));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text, unsigned mode) {
  AtomicFile file(path, mode);
  file.write(text);
  file.commit();
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace lockstep
