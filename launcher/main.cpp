#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "comm/world/environment.h"
#include "kernels/base/error.h"
#include "kernels/base/gpus.h"
#include "kernels/base/host.h"
#include "kernels/base/random.h"
#include "kernels/base/signals.h"
#include "kernels/base/version.h"
#include "launcher/command_line.h"
#include "launcher/cores.h"
#include "launcher/environment.h"
#include "launcher/exit_status.h"
#include "launcher/log_folder.h"
#include "launcher/options.h"
#include "launcher/output.h"
#include "launcher/process_tree.h"
#include "launcher/processes.h"
#include "launcher/program.h"
#include "launcher/signals.h"
#include "launcher/supervisor.h"
#include "launcher/worker.h"

namespace lockstep::launcher {
namespace {

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry; ++entry) variables.emplace_back(*entry);
  return variables;
}

std::filesystem::path own_folder() {
  std::error_code unreadable;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  if (unreadable) {
    throw DeviceError(
        fmt::format("/proc/self/exe: {}; is /proc mounted? mount -t proc proc /proc", unreadable.message()));
  }
  return program.parent_path();
}

int terminal_columns() {
  winsize size = {};
  if (isatty(STDOUT_FILENO) == 0) return 0;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// "node 1 of 2, ranks 2-3 of 4: "; nothing on one node.
std::string node_words(const Job& job) {
  if (job.node_count == 1) return {};
  const int last = job.first_rank() + job.local_size - 1;
  const std::string ranks =
      job.local_size == 1 ? fmt::format("rank {}", last) : fmt::format("ranks {}-{}", job.first_rank(), last);
  return fmt::format("node {} of {}, {} of {}: ", job.node_rank, job.node_count, ranks, job.world_size());
}

Job describe_job(const Options& options, const Cores& cores, int ranks, int gpus, std::int64_t start_ns) {
  return {.master_addr = options.master_addr,
          .master_port = options.master_port ? options.master_port : free_port(options.master_addr),
          .run_id = options.run_id.empty() ? random_hex(8) : options.run_id,
          .role = options.role,
          .local_size = ranks,
          .node_rank = options.node_rank,
          .node_count = options.nnodes,
          .threads = cores.per_rank(ranks),
          .max_restarts = options.max_restarts,
          .start_ns = start_ns,
          .terminal_columns = terminal_columns(),
          // Nodes cannot agree on a secret that one of them makes: theirs is the user's.
          .token = options.nnodes == 1 ? random_hex(16) : "",
          .gpus = gpus,
          .allow_gpu_sharing = options.allow_gpu_sharing};
}

std::vector<Worker> start_workers(const Command& command, const Job& job, const LogFolder& logs,
                                  const std::vector<CpuList>& slices, const Reaper& reaper, Output& output) {
  const std::vector<std::string> inherited = own_environment();
  std::vector<Worker> workers;
  for (int rank = 0; rank < job.local_size; ++rank) {
    const CpuList slice = slices.empty() ? CpuList{} : slices[static_cast<std::size_t>(rank)];
    const auto variables = worker_environment(inherited, job, rank, logs.error_file(rank));
    workers.emplace_back(rank, command, variables, slice, output.open(rank), output.limit_of_workers());
    reaper.watch(workers.back().pid());
    output.close_worker_ends();
  }
  return workers;
}

std::vector<RankFacts> collect_facts(const std::vector<Worker>& workers, const LogFolder& logs,
                                     const Job& job) {
  std::vector<RankFacts> facts;
  for (const Worker& worker : workers) {
    facts.push_back({.rank = job.first_rank() + worker.rank(),
                     .pid = worker.pid(),
                     .started = worker.started(),
                     .message = error_message(logs.error_file(worker.rank()))});
  }
  return facts;
}

/// How a start of all ranks ended.
struct RunOutcome {
  std::optional<ExitStatus> root_cause;  ///< none: it ended well
  std::string report;
};

RunOutcome outcome_of(std::vector<ExitStatus> statuses, const std::vector<Worker>& workers,
                      const LogFolder& logs, const Job& job, std::optional<int> passed_on) {
  for (ExitStatus& status : statuses) status.told_code = error_code(logs.error_file(status.rank));
  const std::optional<ExitStatus> cause = root_cause(statuses);
  if (!cause) return {};
  return {cause, failure_report(*cause, statuses, collect_facts(workers, logs, job), host_name(), passed_on)};
}

/// After a failure that need not come again, unless the run was told to stop.
bool starts_again(const RunOutcome& outcome, const Job& job, bool told_to_stop, Signals& signals) {
  const std::optional<ExitStatus>& cause = outcome.root_cause;
  if (!cause || !cause->failed() || cause->would_fail_again()) return false;
  return job.restart < job.max_restarts && !told_to_stop &&
         std::ranges::none_of(signals.read(), asks_to_stop);
}

int launch(const Options& options, std::int64_t start_ns) {
  const Cores cores = find_cores(affinity_mask());
  const int gpus = count_devices();
  const int ranks = count_ranks(options.nproc_per_node, cores, gpus);
  check_local_ranks(options, ranks);
  const comm::Environment environment = comm::process_environment();
  const Command command = find_command(options, own_folder(), environment("PATH").value_or("/usr/bin:/bin"));
  Job job = describe_job(options, cores, ranks, gpus, start_ns);
  const std::vector<CpuList> slices =
      !options.binds ? std::vector<CpuList>{}
                     : choose_slices(cores, ranks, comm::omp_threads(environment),
                                     find_numa_nodes(environment("CUDA_VISIBLE_DEVICES").value_or("")));

  std::set<pid_t> foreign = ProcessTree::own_descendants();
  const Reaper reaper;
  foreign.insert(reaper.pid());
  // Orphans of workers become our children, so that none is left behind.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  LogFolder logs(options, job.run_id, ranks);
  Output output(options, logs, job.first_rank(), ranks);
  Signals signals(options.signals);
  output.show_line(
      fmt::format("launch: {}{}\n", node_words(job),
                  start_line(cores, slices, ranks, environment("OMP_NUM_THREADS").value_or(""))));
  if (!shows_own_processes()) {
    output.show_line(
        "launch: /proc is that of another PID namespace, so what ranks start outside their process groups is "
        "not seen: give launch a /proc of its own (unshare --mount-proc)\n");
  }
  if (options.redirects.any() || options.tee.any())
    output.show_line(fmt::format("launch: logs in {}\n", logs.root().string()));

  while (true) {
    std::vector<Worker> workers = start_workers(command, job, logs, slices, reaper, output);
    Supervisor supervisor(workers, foreign, reaper, signals, output, Seconds(options.shutdown_timeout),
                          [&logs](int rank) { return error_code(logs.error_file(rank)); });
    std::vector<ExitStatus> statuses = supervisor.run();
    const RunOutcome outcome = outcome_of(std::move(statuses), workers, logs, job, supervisor.passed_on());
    if (!starts_again(outcome, job, supervisor.told_to_stop(), signals)) {
      supervisor.finish_output(outcome.report);
      return outcome.root_cause ? outcome.root_cause->exit_code() : 0;
    }
    ++job.restart;
    job.start_ns = boottime_ns();
    output.show_line(fmt::format("{}launch: starts all ranks of this node again, {} of {} times\n",
                                 outcome.report, job.restart, job.max_restarts));
    logs.begin_attempt(job.restart);
  }
}

/// A reader that has gone has what it wanted.
int print(const std::string& text) {
  if ((std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) && errno != EPIPE)
    throw DeviceError(fmt::format("standard output: cannot write: {}", errno_message(errno)));
  return 0;
}

int run(const std::vector<std::string>& arguments, std::int64_t start_ns) {
  const Options options = parse_options(arguments, comm::process_environment());
  if (options.help) return print(help_text());
  if (options.version) return print(fmt::format("lockstep {} ({})\n", version(), commit()));
  try {
    return launch(options, start_ns);
  } catch (const UsageError& error) {
    throw UsageError(named_as_given(error.what(), options.from_environment));
  }
}

int fail(const std::exception& error, ExitCode code) {
  std::fputs(fmt::format("launch: {}\n", on_one_line(error.what())).c_str(), stderr);
  return static_cast<int>(code);
}

}  // namespace
}  // namespace lockstep::launcher

int main(int argc, char** argv) {
  const std::int64_t start_ns = lockstep::boottime_ns();
  lockstep::fill_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away ends no rank's watch
  std::signal(SIGXFSZ, SIG_IGN);  // nor does a log that `ulimit -f` cuts
  try {
    return lockstep::launcher::run({argv + 1, argv + argc}, start_ns);
  } catch (const lockstep::Error& error) {
    return lockstep::launcher::fail(error, error.code());
  } catch (const std::exception& error) {
    return lockstep::launcher::fail(error, lockstep::ExitCode::device);
  }
}
