#include "runtime/run/agent.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>

#include "kernels/base/process.h"

namespace lockstep::runtime {
namespace {

/// A launcher's variable, and the names of its programs (Open MPI 4's and 5's; PyTorch's agent names itself).
struct Launcher {
  const char* variable;
  std::initializer_list<const char*> programs;
};

const std::initializer_list<Launcher> launchers{
    {"OMPI_COMM_WORLD_RANK", {"mpirun", "mpiexec", "orterun", "prterun", "orted", "prted", "prte"}},
    {"TORCHELASTIC_RUN_ID", {"pt_elastic", "torchrun"}}};

/// The nearest process above this one with one of these names, or 0.
pid_t ancestor_of(std::initializer_list<const char*> names) {
  for (auto process = read_process(::getpid()); process && process->parent > 1;) {
    process = read_process(process->parent);
    if (!process) break;
    const std::string name = program_name(process->pid);
    if (std::ranges::any_of(names, [&](const char* of) { return name == of; })) return process->pid;
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
