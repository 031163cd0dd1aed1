#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simgpu/machine/node.h"
#include "tests/simgpu/machine/twin_mapping.h"

namespace simgpu {

/// Closes the pages of pinned memory that a copy writes (or makes those that it reads read-only) until the
/// host has waited for the copy, so that the host is caught when it touches them too early.
class PinnedGuards {
 public:
  explicit PinnedGuards(const TwinMapping& pinned) : pinned_(pinned) {}

  void guard(const Node& node, std::uintptr_t begin, std::uintptr_t end, bool writes);

  /// Opens what the host now knows to be done.
  void release(const VectorClock& host);
  void forget(std::uintptr_t begin, std::uintptr_t end);

  struct Touched {
    const NodeInfo* by = nullptr;  ///< null: a neighbour on the same page was touched; the page is now open
    bool copy_writes = false;
  };

  /// What the host touched too early. For the handler of SIGSEGV: allocates nothing.
  Touched touched(std::uintptr_t address, bool host_writes) const;

 private:
  struct Guard {
    std::uintptr_t begin;
    std::uintptr_t end;
    bool writes;
    Stamp stamp;
    NodeInfoPtr info;
  };

  int protection_of(std::uintptr_t page) const;
  void protect_again(std::uintptr_t begin, std::uintptr_t end) const;

  const TwinMapping& pinned_;
  std::vector<Guard> guards_;
};

}  // namespace simgpu
