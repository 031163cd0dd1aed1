// Pauses shorter than --timeout of any process of a run: it goes on to the same bits, and a rank that is
// killed behind the pause is reported as after none.
#include <poll.h>

#include <csignal>

#include "tests/fault/short_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

constexpr const char* processes[]{"rank 0", "rank 1", "launch", "reaper"};
constexpr const char* ways[]{by_memory.variables, by_tcp.variables};

/// The longest is --timeout less 1 s.
constexpr double shortest = 0.3;
constexpr double longest = 2;

Words steps_of(const std::string& way, const fs::path& run_dir, const std::string& steps) {
  return Words{LAUNCH_PROGRAM,
               "--nproc_per_node=2",
               "/bin/sh",
               "-c",
               way + "echo pid$RANK=$$.; exec \"$0\" \"$@\"",
               TRAINER_PROGRAM} +
         tiny_training + Words{"--timeout=3", "--max-steps=" + steps, "--run-dir=" + run_dir.string()};
}

pid_t pid_of(const std::string& process, const Program& run) {
  if (process == "launch") return run.pid();
  if (process == "reaper") return child_named(run.pid(), "launch-reaper");
  return run.number_after("pid" + process.substr(5));
}

struct Pause {
  std::string way;
  std::string process;
  double seconds;
};

/// Until the log has a later one.
void wait_for_step_after(std::int64_t step, Program& run, const fs::path& run_dir) {
  for (const Deadline deadline = Deadline::in(patience); logged_step(run_dir) <= step;) {
    if (deadline.passed()) {
      ::kill(run.pid(), SIGTERM);
      run.wait_for_end();
      FAIL("no step after " << step << ":\n" << run.output());
    }
    ::poll(nullptr, 0, 1);
  }
}

void make(const Pause& pause, Program& run, const fs::path& run_dir) {
  run.wait_for(".\n", 2);
  wait_for_step_after(0, run, run_dir);
  const pid_t pid = pid_of(pause.process, run);
  stop(pid);
  ::usleep(static_cast<useconds_t>(1e6 * pause.seconds));
  ::kill(pid, SIGCONT);
}

void check_bits(const Pause& pause) {
  static const std::string undisturbed = [] {
    const TemporaryFolder folder;
    return hash_of(steps_of("", folder / "run", "400"), folder / "run");
  }();
  const TemporaryFolder folder;
  Program run(steps_of(pause.way, folder / "run", "400"));
  make(pause, run, folder / "run");
  const int code = run.wait_for_end();
  INFO(run.output());
  CHECK(code == 0);
  CHECK_FALSE(fs::exists(folder / "run/failure.json"));
  CHECK(hash_in(folder / "run") == undisturbed);
}

void check_kill(const Pause& pause) {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program run(steps_of(pause.way, run_dir, "1000000"));
  make(pause, run, run_dir);
  wait_for_step_after(logged_step(run_dir), run, run_dir);
  const auto start = Clock::now();
  ::kill(run.number_after("pid1"), SIGKILL);
  CHECK(run.wait_for_end() == 128 + SIGKILL);
  INFO(run.output());
  CHECK(Clock::now() - start < Seconds(3 * slowness));
  const auto report = nlohmann::json::parse(contents(run_dir / "failure.json"));
  CHECK(report["missing"] == std::vector<int>{1});
  CHECK_THAT(report["cause"].get<std::string>(), contains("rank 1 "));
}

void check(const Pause& pause) {
  CAPTURE(pause.way, pause.process, pause.seconds);
  check_bits(pause);
  check_kill(pause);
}

TEST_CASE("a short pause of a rank, of launch or of its reaper") {
  int turn = 0;
  for (const char* process : processes) check({ways[turn++ % 2], process, shortest});
}

TEST_CASE("pauses of each process, up to --timeout less a second, on one node and on two", "[.matrix]") {
  for (const char* way : ways) {
    for (const char* process : processes) {
      for (const double seconds : {shortest, longest}) check({way, process, seconds});
    }
  }
}

}  // namespace
}  // namespace lockstep::tests
