#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "comm/world/environment.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::runtime {

/// The process on this host that started this rank and waits for its end: mpirun, its daemon, or torchrun's
/// agent. `launch` ends its ranks itself; these leave them behind when they are killed.
struct Agent {
  std::string name;
  pid_t pid;
  UniqueFd gone;  ///< readable when the process has ended
};

/// Nothing where no such launcher started this rank, or the system does not show it (a container of the
/// rank's own), or has no descriptors of processes (Linux before 5.3).
std::optional<Agent> find_agent(const comm::Environment& environment);

}  // namespace lockstep::runtime
