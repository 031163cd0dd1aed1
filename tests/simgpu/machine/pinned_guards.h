#pragma once

#include <cstdint>
#include <vector>

#include "tests/simgpu/machine/block.h"
#include "tests/simgpu/machine/node.h"
#include "tests/simgpu/machine/twin_mapping.h"
#include "tests/simgpu/machine/use.h"

namespace simgpu {

/// Closes the pages of pinned memory that a copy or kernel writes (or makes those that it reads read-only)
/// until the host has waited for it, so that the host is caught when it touches them too early. Only pages
/// without bytes of anyone else: a system call on a neighbour's bytes would fail with EFAULT, and nobody
/// would know why.
class PinnedGuards {
 public:
  explicit PinnedGuards(const TwinMapping& pinned) : pinned_(pinned) {}

  void guard(const Node& node, const Use& use, const Block& block);

  /// Opens what the host now knows to be done.
  void release(const VectorClock& host);
  /// What a kernel opened when it came to its bytes.
  void close_again(Stamp kernel) const;
  void forget(std::uintptr_t begin, std::uintptr_t end);

  struct Guard {
    std::uintptr_t begin;  ///< whole pages
    std::uintptr_t end;
    bool writes;
    Stamp stamp;
    NodeInfoPtr info;
  };

  /// Why the host may not touch this yet; null: it may. For the handler of SIGSEGV: allocates nothing.
  const Guard* guard_at(std::uintptr_t address) const;

 private:
  int protection_of(std::uintptr_t page) const;
  void protect_again(std::uintptr_t begin, std::uintptr_t end) const;

  const TwinMapping& pinned_;
  std::vector<Guard> guards_;
};

}  // namespace simgpu
