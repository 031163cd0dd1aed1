#pragma once

#include <sys/types.h>

#include "kernels/base/unique_fd.h"

namespace lockstep::launcher {

/// A small process beside launch that outlives it for a moment: when launch dies without having dismissed it
/// (SIGKILL, memory), it kills the workers' process groups. The parent-death signal reaches the workers
/// alone, not what they have started. It is no child of launch, in a session of its own, and holds none of
/// launch's descriptors.
class Reaper {
 public:
  Reaper();
  Reaper(const Reaper&) = delete;
  /// Dismisses it.
  ~Reaper();

  void watch(pid_t group) const { tell(group); }
  /// The group has no members any more: its number may be given to others.
  void forget(pid_t group) const { tell(-group); }

 private:
  void tell(pid_t message) const;

  UniqueFd orders_;
};

}  // namespace lockstep::launcher
