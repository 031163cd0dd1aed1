#include <signal.h>

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

constexpr int ranks = 3;
constexpr int timeout_s = 3;

/// What NCCL's twin has made for a rank: it names the process.
std::vector<std::string> shared_memory_of(pid_t rank) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = file.path().filename();
    if (name.find(fmt::format("nccl-{}-", rank)) != std::string::npos) names.push_back(name);
  }
  return names;
}

/// A run on three GPUs that goes on until something ends it. Every rank tells its pid first.
struct EndlessRun {
  TemporaryFolder folder;
  Program program;

  explicit EndlessRun(const std::string& graphs)
      : program(Words{LAUNCH_PROGRAM, "--nproc_per_node=" + std::to_string(ranks), "sh", "-c",
                      "echo pid$RANK=$$; exec \"$@\"", "sh", TRAINER_PROGRAM} +
                small_images + sgd +
                Words{"--model=simplecnn", "--device=cuda", "--backend=nccl", "--max-steps=1000000",
                      "--progress=plain", "--timeout=" + std::to_string(timeout_s), "--cuda-graph=" + graphs,
                      "--run-dir", (folder.path() / "run").string()}) {
    for (int rank = 0; rank < ranks; ++rank) program.wait_for("pid" + std::to_string(rank) + "=");
  }

  void check_ends_in_time() {
    const auto start = Clock::now();
    const int code = program.wait_for_end();
    const Seconds took = Clock::now() - start;
    INFO(program.output());
    CHECK(code == 5);
    CHECK(took < Seconds(timeout_s + 2));
  }

  void check_nothing_is_left() const {
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t pid = program.number_after("pid" + std::to_string(rank));
      CHECK(wait_until_gone(pid, Seconds(2)));
      CHECK(shared_memory_of(pid).empty());
    }
  }
};

}  // namespace

TEST_CASE("a rank that never comes to NCCL's rendezvous is named after --timeout, and all end") {
  const int absent = GENERATE(0, 2);
  CAPTURE(absent);
  give_gpus(ranks);
  const Variable fault("SIMGPU_NCCL_ABSENT", std::to_string(absent));
  EndlessRun run("off");
  run.check_ends_in_time();
  INFO(run.program.output());
  CHECK_THAT(run.program.output(),
             contains("NCCL's rendezvous was not ready within --timeout") &&
                 contains("rank " + std::to_string(absent) + " has not begun NCCL's rendezvous"));
  run.check_nothing_is_left();
}

TEST_CASE("an error that NCCL finds later ends all ranks with its words, walked and replayed") {
  const std::string graphs = GENERATE("off", "on");
  CAPTURE(graphs);
  give_gpus(ranks);
  // Some steps after the first, so that graphs are replayed by then.
  const Variable fault("SIMGPU_NCCL_FAIL_AT", "40@1");
  EndlessRun run(graphs);
  run.program.wait_for("step ");
  run.check_ends_in_time();
  INFO(run.program.output());
  CHECK_THAT(run.program.output(), contains("rank 1: NCCL all-reduce ") &&
                                       contains("NCCL: unhandled system error: collective 40 failed"));
  run.check_nothing_is_left();
}

TEST_CASE("a rank on a GPU that is stopped is found after --timeout and named, and all end") {
  const std::string graphs = GENERATE("off", "on");
  CAPTURE(graphs);
  give_gpus(ranks);
  EndlessRun run(graphs);
  run.program.wait_for("step ", 2);
  stop(run.program.number_after("pid1"));
  run.check_ends_in_time();
  INFO(run.program.output());
  CHECK_THAT(run.program.output(), contains("rank 1 does not answer"));
  run.check_nothing_is_left();
}

}  // namespace lockstep::tests
