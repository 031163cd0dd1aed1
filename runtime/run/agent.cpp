#include "runtime/run/agent.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "kernels/base/process.h"

namespace lockstep::runtime {
namespace {

using Programs = std::span<const std::string_view>;

/// Of Open MPI 4 and 5.
constexpr std::array<std::string_view, 7> open_mpi{"mpirun", "mpiexec", "orterun", "prterun",
                                                   "orted",  "prted",   "prte"};
/// As PyTorch's agent names itself, and before it does.
constexpr std::array<std::string_view, 2> torchrun{"pt_elastic", "torchrun"};

/// A variable that a launcher sets, and what its programs are called.
struct Launcher {
  const char* variable;
  Programs programs;
};
constexpr std::array launchers{Launcher{"OMPI_COMM_WORLD_RANK", open_mpi},
                               Launcher{"TORCHELASTIC_RUN_ID", torchrun}};

/// The nearest process above this one with one of these names, or 0.
pid_t ancestor_of(Programs names) {
  for (auto process = read_process(::getpid()); process && process->parent > 1;) {
    process = read_process(process->parent);
    if (!process) break;
    if (std::ranges::find(names, program_name(process->pid)) != names.end()) return process->pid;
  }
  return 0;
}

}  // namespace

std::optional<Agent> find_agent(const comm::Environment& environment) {
  for (const Launcher& launcher : launchers) {
    if (!environment(launcher.variable)) continue;
    const pid_t pid = ancestor_of(launcher.programs);
    if (pid == 0) continue;
    Agent agent{.name = program_name(pid),
                .pid = pid,
                .gone = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))};
    // Opened too late, it would be that of a stranger with the same number.
    if (agent.gone && ancestor_of(launcher.programs) == pid) return agent;
  }
  return std::nullopt;
}

}  // namespace lockstep::runtime
