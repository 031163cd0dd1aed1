#include "runtime/plan/lifetime_allocator.h"

#include <algorithm>

#include "kernels/base/division.h"

namespace lockstep::runtime {

bool LifetimeAllocator::try_place(Lifetime& life, std::size_t alignment) {
  std::vector<const Lifetime*> neighbours;
  for (const Lifetime& other : reserved_) {
    if (other.overlaps(life)) neighbours.push_back(&other);
  }
  std::ranges::sort(neighbours, {}, [](const Lifetime* other) { return other->offset; });
  std::size_t offset = 0;
  for (const Lifetime* other : neighbours) {
    if (offset + life.bytes <= other->offset) break;
    const std::size_t behind = other->offset + other->bytes;
    offset = std::max(offset, rounded_up(behind, alignment));
  }
  if (life.bytes > bytes_ || offset > bytes_ - life.bytes) return false;
  life.offset = offset;
  reserve(life);
  return true;
}

std::size_t LifetimeAllocator::end() const {
  std::size_t end = 0;
  for (const Lifetime& life : reserved_) end = std::max(end, life.offset + life.bytes);
  return end;
}

}  // namespace lockstep::runtime
