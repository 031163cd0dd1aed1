#include "launcher/worker.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/threads.h"
#include "launcher/processes.h"

namespace lockstep::launcher {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

struct Start {
  const char* program;
  char* const* arguments;
  char* const* environment;
  const cpu_set_t* cpus;  ///< null: not bound
  StandardStreams streams;
  const rlimit* descriptors;  ///< null: ours
  pid_t parent;
};

/// dup2 that also works when both are the same descriptor: then only close-on-exec has to go.
bool place(int from, int to) {
  return dup2(from, to) == to;
}

/// Runs in the child, on the parent's memory (vfork): system calls only. Returns the errno of what failed.
int become(const Start& start) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != start.parent) return ECANCELED;
  if (start.cpus) sched_setaffinity(0, sizeof *start.cpus, start.cpus);
  if (!place(start.streams.in, 0) || !place(start.streams.out, 1) || !place(start.streams.err, 2))
    return errno;
  if (start.descriptors) setrlimit(RLIMIT_NOFILE, start.descriptors);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  // It is not in the terminal's foreground group, and may write there all the same (`stty tostop`).
  signal(SIGTTOU, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(start.program, start.arguments, start.environment);
  return errno;
}

}  // namespace

Worker::Worker(int rank, const Command& command, const std::vector<std::string>& environment,
               const CpuList& cpus, StandardStreams streams, const std::optional<rlimit>& descriptors)
    : rank_(rank) {
  const std::vector<char*> arguments = pointers(command.arguments);
  const std::vector<char*> variables = pointers(environment);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  const Start start = {.program = command.program.c_str(),
                       .arguments = arguments.data(),
                       .environment = variables.data(),
                       .cpus = cpus.empty() ? nullptr : &set,
                       .streams = streams,
                       .descriptors = descriptors ? &*descriptors : nullptr,
                       .parent = getpid()};
  started_ = Clock::now();
  volatile int refusal = 0;
  // posix_spawn has no parent-death signal; vfork tells a failed exec at once and copies no page tables.
  const pid_t child = vfork();
  if (child == 0) {
    refusal = become(start);
    _exit(127);
  }
  if (child < 0)
    throw DeviceError(fmt::format("no new process for rank {}: {}", rank, obstacle_to_start_process(errno)));
  if (refusal != 0) {
    waitpid(child, nullptr, 0);
    throw UsageError(
        fmt::format("cannot execute '{}': {}", command.program.string(), errno_message(refusal)));
  }
  pid_ = child;
  running_ = true;
}

Worker::Worker(Worker&& other) noexcept
    : rank_(other.rank_),
      pid_(other.pid_),
      started_(other.started_),
      running_(std::exchange(other.running_, false)) {}

Worker::~Worker() {
  if (!running_) return;
  send(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Worker::send(int signal) const {
  if (running_) kill(-pid_, signal);
}

bool Worker::is_stopped() const {
  const auto process = running_ ? read_process(pid_) : std::nullopt;
  return process && process->is_stopped();
}

}  // namespace lockstep::launcher
