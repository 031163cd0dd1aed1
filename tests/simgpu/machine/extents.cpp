#include "tests/simgpu/machine/extents.h"

#include <iterator>

#include "tests/simgpu/machine/page.h"

namespace simgpu {

Extents::Extents(std::uintptr_t begin, std::uintptr_t end, std::size_t unit, std::size_t pad)
    : free_{{begin, end}}, next_(begin), unit_(unit), pad_(pad) {}

std::size_t Extents::rounded(std::size_t bytes) const {
  return round_up(bytes == 0 ? 1 : bytes, unit_);
}

std::optional<std::uintptr_t> Extents::take(std::size_t bytes) {
  const std::size_t whole = rounded(bytes) + 2 * pad_;
  const auto start = free_.lower_bound(next_);
  auto begin = take_from(start, free_.end(), whole);
  if (!begin) begin = take_from(free_.begin(), free_.end(), whole);
  if (!begin) return std::nullopt;
  next_ = *begin + whole;
  return *begin + pad_;
}

std::optional<std::uintptr_t> Extents::take_from(Free::iterator first, Free::iterator last,
                                                 std::size_t bytes) {
  for (auto extent = first; extent != last; ++extent) {
    const auto [begin, end] = *extent;
    if (end - begin < bytes) continue;
    free_.erase(extent);
    if (end - begin > bytes) free_[begin + bytes] = end;
    return begin;
  }
  return std::nullopt;
}

void Extents::give_back(std::uintptr_t begin, std::size_t bytes) {
  begin -= pad_;
  auto end = begin + rounded(bytes) + 2 * pad_;
  auto after = free_.lower_bound(begin);
  if (after != free_.end() && after->first == end) {
    end = after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin() && std::prev(after)->second == begin) {
    std::prev(after)->second = end;
  } else {
    free_[begin] = end;
  }
}

}  // namespace simgpu
