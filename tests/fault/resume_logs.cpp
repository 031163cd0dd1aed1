// What log.jsonl has of a run that was begun or taken up in a folder where it, or another, had logged before;
// and which steps the figures of a line are of.
#include <map>

#include "tests/fault/resume_runs.h"
#include "tests/support/json_lines.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

/// 10 steps an epoch.
const Words small{"--model=mlp", "--dataset=synthetic", "--samples=640", "--threads=1", "--progress=none"};

std::vector<std::int64_t> steps_with(const std::string& field, const fs::path& run_dir) {
  std::vector<std::int64_t> steps;
  for (const auto& line : lines_of(contents(run_dir / "log.jsonl"))) {
    if (line.contains(field)) steps.push_back(line["step"].get<std::int64_t>());
  }
  return steps;
}

TEST_CASE("a new run where another has failed has a log of its own") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  fs::create_directories(run_dir);
  write_file(run_dir / "log.jsonl", "{\"time\":1,\"step\":1,\"lr\":10}\n{\"time\":1,\"ste");
  train(1, small + Words{"--max-steps=3", "--eval-every=0", "--log-every=1"}, run_dir);
  CHECK(steps_with("lr", run_dir) == std::vector<std::int64_t>{1, 2, 3});
  CHECK(contents(run_dir / "log.jsonl").find("\"lr\":10") == std::string::npos);
}

TEST_CASE("an evaluation stands once in the log, however often the run is taken up again") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const Words words =
      small + Words{"--max-steps=15", "--eval-every=1", "--checkpoint-every=5", "--resume=auto"};
  const auto summary = train(1, words, run_dir);
  const std::vector<std::int64_t> evaluated{10, 15};  // behind the epoch, and at the end
  CHECK(steps_with("eval", run_dir) == evaluated);
  train(1, words, run_dir);
  train(1, words, run_dir);
  CHECK(steps_with("eval", run_dir) == evaluated);
  train(1, words + Words{"--max-steps=17"}, run_dir);
  CHECK(steps_with("eval", run_dir) == std::vector<std::int64_t>{10, 15, 17});
  CHECK(summary["eval"]["samples"] > 0);
}

TEST_CASE("a line of the log is of all steps since the one before, whatever the console has shown") {
  const TemporaryFolder folder;
  // A batch of 64, behind which the console's first line comes, and one of 32.
  train(1, small + Words{"--samples=96", "--eval-every=0", "--log-every=2", "--progress=plain"},
        folder / "run");
  const auto lines = lines_of(contents(folder / "run/log.jsonl"));
  REQUIRE(lines.size() == 1);
  const double samples_a_step =
      lines[0]["samples_per_s"].get<double>() * lines[0]["step_ms"].get<double>() / 1e3;
  CHECK(samples_a_step == Approx(48));
}

TEST_CASE("the wait for the first batch, before the clock of steps begins, is in no line of the log") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const Words words = small + Words{"--eval-every=0", "--log-every=1", "--checkpoint-every=1"};
  // Behind the last step no batch is waited for.
  train(1, words + Words{"--max-steps=1"}, run_dir);
  train(1, words + Words{"--max-steps=2", "--resume=auto"}, run_dir);
  const auto lines = lines_of(contents(run_dir / "log.jsonl"));
  REQUIRE(lines.size() == 2);
  for (const auto& line : lines) CHECK(line["data_wait_ms"].get<double>() == 0);
}

TEST_CASE("a finished run that has saved no checkpoint is left as it is, and another folder asked for") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  train(1, small + Words{"--max-steps=3", "--eval-every=0", "--log-every=1"}, run_dir);
  const auto texts = [&] {
    std::map<std::string, std::string> by_name;
    for (const auto& entry : fs::directory_iterator(run_dir)) {
      by_name[entry.path().filename().string()] = contents(entry.path());
    }
    return by_name;
  };
  const auto before = texts();
  REQUIRE(before.contains("model.safetensors"));
  Program run(trainer_words(
      1, small + Words{"--max-steps=5", "--lr=0.5", "--resume=auto", "--run-dir=" + run_dir.string()}));
  CHECK(run.wait_for_end() == 2);
  CHECK_THAT(run.output(), contains("holds a finished run and no checkpoint to go on from"));
  CHECK(texts() == before);
}

}  // namespace
}  // namespace lockstep::tests
