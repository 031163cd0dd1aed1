#include "tests/simgpu/machine/twin_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tests/simgpu/machine/page.h"

namespace simgpu {
namespace {

void require_system(bool condition, const char* what) {
  if (!condition) throw std::system_error(errno, std::generic_category(), what);
}

void* map(std::uintptr_t address, std::size_t bytes, int protection, int file) {
  return mmap(reinterpret_cast<void*>(address), bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
}

}  // namespace

TwinMapping::TwinMapping(std::uintptr_t address, std::size_t bytes) : bytes_(page_up(bytes)) {
  file_ = memfd_create("simgpu", MFD_CLOEXEC);
  require_system(file_ >= 0, "memfd_create");
  require_system(ftruncate(file_, static_cast<off_t>(bytes_)) == 0, "ftruncate");
  void* view = map(0, bytes_, PROT_READ | PROT_WRITE, file_);
  require_system(view != MAP_FAILED, "mmap");
  view_ = static_cast<std::byte*>(view);
  // A hint, not MAP_FIXED_NOREPLACE: ThreadSanitizer cannot have memory at every address, and moves it.
  void* begin = map(address, bytes_, PROT_NONE, file_);
  require_system(begin != MAP_FAILED, "mmap");
  begin_ = reinterpret_cast<std::uintptr_t>(begin);
}

TwinMapping::~TwinMapping() {
  munmap(view_, bytes_);
  munmap(reinterpret_cast<void*>(begin_), bytes_);
  close(file_);
}

void TwinMapping::protect(std::uintptr_t begin, std::uintptr_t end, int protection) const {
  const auto from = page_down(begin);
  require_system(mprotect(reinterpret_cast<void*>(from), page_up(end) - from, protection) == 0, "mprotect");
}

void TwinMapping::discard(std::uintptr_t begin, std::uintptr_t end) const {
  const auto from = page_up(begin) - begin_;
  const auto to = page_down(end) - begin_;
  if (from >= to) return;
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  require_system(fallocate(file_, mode, static_cast<off_t>(from), static_cast<off_t>(to - from)) == 0,
                 "fallocate");
}

}  // namespace simgpu
