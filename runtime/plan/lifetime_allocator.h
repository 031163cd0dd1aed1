#pragma once

#include <cstddef>
#include <vector>

#include "kernels/base/alignment.h"

namespace lockstep::runtime {

/// Bytes of a memory that are taken from node `first` of a plan to node `last`.
struct Lifetime {
  static constexpr std::size_t for_ever = static_cast<std::size_t>(-1);

  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t bytes = 0;
  std::size_t offset = 0;

  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

/// Offsets in a memory of which each byte serves one thing after another in a step.
class LifetimeAllocator {
 public:
  static constexpr std::size_t unlimited = static_cast<std::size_t>(-1);

  explicit LifetimeAllocator(std::size_t bytes = unlimited) : bytes_(bytes) {}

  /// For what has its offset already.
  void reserve(const Lifetime& life) { reserved_.push_back(life); }

  /// Gives it the lowest offset, a multiple of `alignment`, at which it meets nothing that lives at the same
  /// time. False, and nothing is reserved, if there is none.
  bool try_place(Lifetime& life, std::size_t alignment = cache_line);

  /// Where the last byte that was ever reserved ends.
  std::size_t end() const;

 private:
  std::size_t bytes_;
  std::vector<Lifetime> reserved_;
};

}  // namespace lockstep::runtime
