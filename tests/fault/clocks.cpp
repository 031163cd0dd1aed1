// The clock of the wall jumps by a day in one process of a run: time stamps show it, and nothing else does.
#include <sstream>

#include "tests/fault/short_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

constexpr int day = 86400;

struct Jump {
  Shape shape;
  std::string process;
  int seconds;
  int reads;  ///< of the clock before it
};

/// What log.jsonl tells of steps, without what time is in; and the time between its first and last lines.
struct Log {
  explicit Log(const fs::path& file) {
    std::istringstream stream(contents(file));
    double first = 0;
    for (std::string line; std::getline(stream, line);) {
      auto entry = nlohmann::json::parse(line);
      if (steps.empty()) first = entry["time"];
      seconds = entry["time"].get<double>() - first;
      for (const char* timed : {"time", "samples_per_s", "step_ms", "exposed_comm_ms", "data_wait_ms"}) {
        entry.erase(timed);
      }
      steps += entry.dump() + "\n";
    }
  }
  std::string steps;
  double seconds = 0;
};

/// The file that tells of the jump.
fs::path jumped(const fs::path& folder) {
  return folder / "jumped";
}

Words with_jump(const Jump& jump, const fs::path& folder, const Words& words) {
  return Words{"/usr/bin/env",
               "LD_PRELOAD=" CLOCK_JUMPS,
               "CLOCK_PROCESS=" + jump.process,
               fmt::format("CLOCK_SECONDS={}", jump.seconds),
               fmt::format("CLOCK_READS={}", jump.reads),
               "CLOCK_JUMPED=" + jumped(folder).string()} +
         words;
}

/// Nothing is told beside what launch says of cores and a slow disk.
bool is_quiet(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("launch: 2 ranks on") && line.find("waits for the disk") == std::string::npos)
      return false;
  }
  return true;
}

void check(const Jump& jump) {
  CAPTURE(jump.shape.name, jump.process, jump.seconds, jump.reads);
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  static const Log undisturbed = [&] {
    const TemporaryFolder other;
    hash_of(training(by_memory, other / "run"), other / "run");
    return Log(other / "run/log.jsonl");
  }();
  Program run(with_jump(jump, folder.path(), training(jump.shape, run_dir)));
  const int code = run.wait_for_end(Seconds(timeout_s * slowness));
  INFO(run.output());
  REQUIRE(code == 0);
  CHECK(fs::exists(jumped(folder.path())));
  CHECK(is_quiet(run.output()));
  CHECK(hash_in(run_dir) == tests::undisturbed(jump.shape));
  const Log log(run_dir / "log.jsonl");
  CHECK(log.steps == undisturbed.steps);
  // Between the first two lines; by TCP the clock is read before them, too.
  const bool jumps_in_log =
      jump.process == "rank 0" && jump.reads == 2 && std::string_view(jump.shape.name) == by_memory.name;
  if (jumps_in_log) CHECK(std::abs(log.seconds - jump.seconds) < timeout_s);
  const auto summary = nlohmann::json::parse(contents(run_dir / "summary.json"));
  for (const char* measured : {"step_ms", "exposed_comm_ms", "data_wait_ms", "startup_ms"}) {
    INFO(measured << " " << summary[measured].dump());
    const auto& value = summary[measured];
    const double ms = value.is_object() ? value["p95"].get<double>() : value.get<double>();
    CHECK((ms >= 0 && ms < 1000 * timeout_s));
  }
}

TEST_CASE("a clock that jumps by a day, forth or back, changes time stamps alone") {
  for (const int seconds : {day, -day}) {
    for (const Shape& shape : {by_memory, by_tcp}) {
      for (const int reads : {0, 2}) check({shape, "rank 0", seconds, reads});
    }
    // TLS reads it in each rank. Beside that it is rank 0's alone: `launch` and the others go by clocks that
    // do not jump.
    check({by_tcp, "rank 1", seconds, 0});
  }
}

TEST_CASE("a run goes on from a checkpoint that a clock of tomorrow has dated") {
  const TemporaryFolder folder;
  const Words words = training(by_memory, folder / "run");
  hash_of(with_jump({by_memory, "rank 0", day, 0}, folder.path(), words + Words{"--max-steps=4"}),
          folder / "run");
  CHECK(fs::exists(jumped(folder.path())));
  CHECK(hash_of(words, folder / "run") == tests::undisturbed(by_memory));
}

}  // namespace
}  // namespace lockstep::tests
