#include "comm/shm/mapping.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

std::size_t page_size() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Mapping::Mapping(int fd, std::size_t offset, std::size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) {
    throw DeviceError(fmt::format("cannot map {} bytes of shared memory: {}", bytes, errno_message(errno)));
  }
  madvise(address, bytes, MADV_HUGEPAGE);
  bytes_ = {static_cast<std::byte*>(address), bytes};
}

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

void discard(std::span<std::byte> bytes) noexcept {
  madvise(bytes.data(), bytes.size(), MADV_REMOVE);
}

void populate(std::span<std::byte> bytes) {
  if (madvise(bytes.data(), bytes.size(), MADV_POPULATE_WRITE) == 0) return;
  // Older kernels: read and write back one byte a page. Only before peers use the memory.
  for (std::size_t at = 0; at < bytes.size(); at += page_size()) {
    volatile std::byte& page = bytes[at];
    page = page;
  }
}

std::size_t round_to_pages(std::size_t bytes) {
  return (bytes + page_size() - 1) / page_size() * page_size();
}

}  // namespace lockstep::comm
