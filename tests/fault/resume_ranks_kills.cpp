// A run that is killed whole in mid-epoch and goes on on another number of ranks.
#include "tests/fault/disk_kills.h"
#include "tests/fault/resume_runs.h"
#include "tests/fault/unit_vectors.h"

namespace lockstep::tests {
namespace {

/// Steps of 8, of 12 and of what then is left.
std::map<int, int> steps_after(int done) {
  const int left = static_cast<int>(unit_vector_count) - done;
  return {{8, done}, {12, left - left % 12}, {left % 12, left % 12}};
}

TEST_CASE("an epoch that was killed whole on 2 ranks goes on with exactly its other samples on 3 ranks") {
  // The third checkpoint has its name and is not the latest; or the fourth has no name yet.
  const auto [beginning, count] = GENERATE(std::pair("latest", 3), std::pair("step-", 4));
  CAPTURE(beginning);
  const TemporaryFolder folder;
  write_unit_vectors(folder.path());
  const Words options = unit_vector_options(folder.path()) + Words{"--batch-size=4", "--epochs=1"};
  const auto run_dir = folder / "run";
  {
    const Words begun = telling_pids(options + Words{"--run-dir=" + run_dir.string()});
    Program run(killed_whole_at("rename", count, run_dir / "checkpoints" / beginning, begun));
    CHECK(run.wait_for_end() == 128 + SIGKILL);
    require_ranks_gone(run);
  }
  CHECK(directory_of(run_dir).steps().front() == 3);
  CHECK(train(3, options + Words{"--resume=auto"}, run_dir)["samples"] == unit_vector_count);
  CHECK(samples_by_step_size(run_dir) == steps_after(24));
}

}  // namespace
}  // namespace lockstep::tests
