#include "tests/simgpu/engine/shared_memory.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "tests/simgpu/engine/limits.h"
#include "tests/simgpu/engine/mistake.h"
#include "tests/simgpu/engine/names.h"
#include "tests/simgpu/engine/sanitizer.h"

namespace simgpu {
namespace {

constexpr std::size_t alignment = 1024;
constexpr std::size_t guard = 256;
constexpr std::byte fresh{0xff};
constexpr std::byte guard_pattern{0xa5};

/// Not memset: sanitizers intercept it, and what the engine writes is no access of a CUDA thread.
void write(std::byte* begin, std::size_t bytes, std::byte value) {
  for (std::size_t at = 0; at < bytes; ++at) {
    begin[at] = value;
    if (at % 64 == 0) asm volatile("" ::: "memory");
  }
}

}  // namespace

SharedMemory::SharedMemory() : storage_(alignment + limits::most_shared_bytes + guard) {
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
  dynamic_ = storage_.data() + (alignment - address % alignment) % alignment;
}

void SharedMemory::begin_grid(std::size_t dynamic_bytes) {
  sanitizer::unpoison(dynamic_ + dynamic_bytes_, guard);
  dynamic_bytes_ = dynamic_bytes;
  sanitizer::poison(dynamic_ + dynamic_bytes_, guard);
}

void SharedMemory::begin_block() {
  arrays_.clear();
  fill({dynamic_, dynamic_bytes_, guard});
}

void SharedMemory::end_block() {
  check({dynamic_, dynamic_bytes_, guard}, "dynamic");
  for (const Array& array : arrays_) check(array, "static");
}

void SharedMemory::use_static(std::byte* data, std::size_t bytes, std::size_t guard_bytes) {
  const auto used = [data](const Array& array) { return array.data == data; };
  if (std::any_of(arrays_.begin(), arrays_.end(), used)) return;
  arrays_.push_back({data, bytes, guard_bytes});
  fill(arrays_.back());
  sanitizer::poison(data + bytes, guard_bytes);
}

std::size_t SharedMemory::static_bytes() const {
  std::size_t sum = 0;
  for (const Array& array : arrays_) sum += array.bytes;
  return sum;
}

void SharedMemory::fill(const Array& array) {
  if (array.bytes == 0) return;
  write(array.data, array.bytes, fresh);
  write(array.data + array.bytes, array.guard_bytes, guard_pattern);
}

void SharedMemory::check(const Array& array, const char* what) const {
  if (array.bytes == 0) return;
  const std::byte* end = array.data + array.bytes;
  const std::byte* written =
      std::find_if(end, end + array.guard_bytes, [](std::byte value) { return value != guard_pattern; });
  if (written == end + array.guard_bytes) return;
  throw KernelMistake{"shared memory overrun", running_block_text() + ": wrote byte " +
                                                   std::to_string(written - array.data) + " of " + what +
                                                   " shared memory that has " + std::to_string(array.bytes) +
                                                   ": ask for more at the launch, or correct the index"};
}

}  // namespace simgpu
