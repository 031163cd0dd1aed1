#pragma once

#include <cstdint>

namespace lockstep::tests {

/// Counts what this thread, and the threads of OpenMP, allocate with operator new while the object lives,
/// whoever in Lockstep or the standard library asks for it; what oneDNN and OpenMP ask for is theirs. Link
/// lockstep_allocation_count, which replaces operator new in the whole program.
class AllocationCount {
 public:
  AllocationCount();
  ~AllocationCount();
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;

  int value() const;
  /// Blocks that this thread has allocated and not freed since, those of oneDNN and OpenMP included.
  std::int64_t growth() const;

 private:
  const int team_allocations_before_;
};

}  // namespace lockstep::tests
