#include "comm/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace lockstep::comm {

HeapArena::Memory HeapArena::allocate(DType dtype, std::int64_t elements) {
  constexpr std::align_val_t alignment{workspace_alignment};  // idle gradients are lent as scratch memory
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  Memory memory(static_cast<std::byte*>(::operator new(bytes, alignment)),
                [](std::byte* address) { ::operator delete(address, alignment); });
  std::memset(memory.get(), 0, bytes);
  return memory;
}

ArenaRange shard_of(const ArenaRange& range, int rank, int ranks) {
  const auto begin_of = [&](int shard) {
    return static_cast<std::int64_t>(shard_begin(range.bytes(), shard, ranks) / size_of(range.dtype()));
  };
  const std::int64_t begin = begin_of(rank);
  return {.arena = range.arena, .first = range.first + begin, .count = begin_of(rank + 1) - begin};
}

ArenaRange filled_part(const ArenaRange& shard) {
  std::uint64_t bytes = 0;
  if (shard.bytes() < sizeof(bytes)) return shard;
  std::memcpy(&bytes, shard.data(), sizeof(bytes));
  ArenaRange part = shard;
  const std::uint64_t elements = (std::max(bytes, sizeof(bytes)) - 1) / size_of(shard.dtype()) + 1;
  if (elements < static_cast<std::uint64_t>(shard.count)) part.count = static_cast<std::int64_t>(elements);
  return part;
}

void check_ranges(std::span<const ArenaRange> ranges, const void* owner, std::string_view collective) {
  for (const ArenaRange& range : ranges) {
    if (range.arena == nullptr || range.arena->owner() != owner) {
      throw std::logic_error(fmt::format("{}: the arena is not of this group", collective));
    }
    // Written so that no sum overflows.
    const bool inside = range.first >= 0 && range.count >= 0 && range.first <= range.arena->elements() &&
                        range.count <= range.arena->elements() - range.first;
    if (inside && range.begin_bytes() % cache_line == 0) continue;
    throw std::logic_error(
        fmt::format("{}: {} elements from {} on are not aligned to 64 bytes or not in the arena of {}",
                    collective, range.count, range.first, range.arena->elements()));
  }
}

void check_summable_ranges(std::span<const ArenaRange> ranges, const void* owner,
                           std::string_view collective) {
  check_ranges(ranges, owner, collective);
  for (const ArenaRange& range : ranges) {
    const DType dtype = range.dtype();
    if (dtype == DType::f32 || dtype == DType::f64 || is_half(dtype)) continue;
    throw std::logic_error(
        fmt::format("{}: floating-point numbers only, these are {}", collective, name_of(dtype)));
  }
}

std::uint64_t signature_of(std::span<const ArenaRange> ranges) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  std::uint64_t mixed = ranges.size();
  for (const ArenaRange& range : ranges) {
    for (const std::uint64_t part :
         {std::uint64_t{range.arena->number()}, static_cast<std::uint64_t>(range.dtype()),
          static_cast<std::uint64_t>(range.first), static_cast<std::uint64_t>(range.count)}) {
      mixed = (mixed ^ part) * odd;
      mixed ^= mixed >> 32;
    }
  }
  return mixed;
}

}  // namespace lockstep::comm
