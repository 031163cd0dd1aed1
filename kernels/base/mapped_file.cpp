#include "kernels/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/errno_message.h"
#include "kernels/base/error.h"
#include "kernels/base/unique_fd.h"

namespace lockstep {

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

}  // namespace lockstep
