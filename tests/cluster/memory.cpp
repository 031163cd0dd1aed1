// What a rank takes of the machine's memory, beside what `trainer plan` says.
#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

double planned_peak(int ranks, const Words& options) {
  Program plan(Words{"/usr/bin/env", "RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=" + std::to_string(ranks),
                     "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1", TRAINER_PROGRAM, "plan"} +
               options);
  REQUIRE(plan.wait_for_end() == 0);
  const std::string& text = plan.output();
  return std::stod(text.substr(text.rfind('(') + 1));
}

/// Steps of seconds.
constexpr Seconds limit(200);

TEST_CASE("the planned peak of gpt2 is what a rank takes of memory, within 3 %") {
  const int ranks = GENERATE(1, 2);
  const bool shards = GENERATE(false, true);
  if (shards && ranks == 1) return;
  Words options{"--model=gpt2",        "--model-args=block_size=256,dropout=0",
                "--dataset=synthetic", "--batch-size=1",
                "--optimizer=adamw",   "--threads=1"};
  if (shards) options.push_back("--shard-optimizer");
  const TemporaryFolder folder;
  const auto summary =
      train(ranks, options + Words{"--max-steps=3", "--eval-every=0"}, folder / "run", limit);
  const double planned = planned_peak(ranks, options);
  CAPTURE(ranks, shards);
  CHECK(summary["plan_bytes"].get<double>() == Approx(planned).epsilon(0.001));
  CHECK(summary["peak_memory_bytes"].get<double>() == Approx(planned).epsilon(0.03));
}

}  // namespace
}  // namespace lockstep::tests
