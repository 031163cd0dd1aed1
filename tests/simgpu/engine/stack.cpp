#include "tests/simgpu/engine/stack.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace simgpu {
namespace {

constexpr std::size_t colours = 24;
constexpr std::size_t colour_bytes = 11 * 64;  // odd in cache lines: neighbours never share a set

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

Stack::Stack(unsigned number) {
  const std::size_t guard = page_bytes();
  void* mapping = mmap(nullptr, guard + bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapping == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "mmap of a CUDA thread's stack");
  mapping_ = static_cast<std::byte*>(mapping);
  bottom_ = mapping_ + guard;
  top_ = bottom_ + bytes - (number % colours) * colour_bytes;
  mprotect(mapping_, guard, PROT_NONE);
}

Stack::~Stack() {
  munmap(mapping_, page_bytes() + bytes);
}

}  // namespace simgpu
