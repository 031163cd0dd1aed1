// A training that is killed whole at ten random moments: the weights of one that is not.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string_view>

#include "kernels/base/safetensors.h"
#include "tests/fault/disk_kills.h"
#include "tests/fault/resume_runs.h"

namespace lockstep::tests {

/// On CPUs, or where LOCKSTEP_TEST_DEVICE says so on GPUs.
inline Words device_under_test() {
  const char* name = std::getenv("LOCKSTEP_TEST_DEVICE");
  if (name == nullptr || std::string_view(name) != "cuda") return {"--device=cpu"};
  setenv("SIMGPU_DEVICES", "2", 1);
  return {"--device=cuda"};
}

struct Training {
  Words options;  ///< model and data
  std::int64_t steps;

  Words in(const std::filesystem::path& run_dir) const {
    return telling_pids(options + device_under_test() +
                        Words{"--max-steps=" + std::to_string(steps), "--checkpoint-every=8",
                              "--eval-every=0", "--log-every=1", "--threads=1", "--progress=none",
                              "--run-dir=" + run_dir.string()});
  }
};

/// A run that goes on where it is, and is killed.
class KilledRun {
 public:
  /// A checkpoint has a write for each tensor and for each file's rest.
  KilledRun(const Training& training, std::filesystem::path run_dir, int tensors_of_a_checkpoint,
            std::mt19937& random)
      : words_(training.in(run_dir) + Words{"--resume=auto"}),
        steps_(training.steps),
        run_dir_(std::move(run_dir)),
        tensors_of_a_checkpoint_(tensors_of_a_checkpoint),
        random_(random) {}

  /// Anywhere within a step.
  void kill_anywhere() {
    const std::int64_t goal = std::min(logged_step(run_dir_) + draw(1, 12), steps_ - 1);
    Program run(words_);
    wait_until_seen([&] { return logged_step(run_dir_) >= goal; });
    for (int look = draw(0, 100); look > 0; --look) logged_step(run_dir_);
    kill_whole(run);
  }

  void kill_while_writing() {
    kill_at("write", draw(1, tensors_of_a_checkpoint_), ".step-");
    CHECK(has_begun_checkpoint());
  }

  /// A checkpoint has its name, and `latest` is another.
  void kill_before_latest() {
    kill_at("rename", 1, "latest");
    const auto newest = directory_of(run_dir_).steps();
    REQUIRE(!newest.empty());
    CHECK(directory_of(run_dir_).path_of(newest.front()).filename() != linked_by_latest());
  }

 private:
  int draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  void kill_at(const std::string& call, int count, const std::string& beginning) {
    CAPTURE(call, count);
    Program run(killed_whole_at(call, count, run_dir_ / "checkpoints" / beginning, words_));
    const int code = run.wait_for_end();
    INFO(run.output());
    CHECK(code == 128 + SIGKILL);
    require_ranks_gone(run);
  }

  bool has_begun_checkpoint() const {
    return std::ranges::any_of(
        std::filesystem::directory_iterator(run_dir_ / "checkpoints"),
        [](const auto& entry) { return entry.path().filename().string().ends_with(".tmp"); });
  }

  std::filesystem::path linked_by_latest() const {
    const std::filesystem::path latest = run_dir_ / "checkpoints" / "latest";
    return std::filesystem::is_symlink(latest) ? std::filesystem::read_symlink(latest)
                                               : std::filesystem::path();
  }

  Words words_;
  std::int64_t steps_;
  std::filesystem::path run_dir_;
  int tensors_of_a_checkpoint_;
  std::mt19937& random_;
};

inline int tensors_of_last_checkpoint(const std::filesystem::path& run_dir) {
  std::size_t tensors = 0;
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    tensors += SafetensorsFile(run_dir / "checkpoints" / "latest" / file).tensors().size();
  }
  return static_cast<int>(tensors);
}

inline void check_ten_kills(const Training& training, const std::filesystem::path& folder) {
  const std::string whole = hash_of(training.in(folder / "whole"), folder / "whole");
  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::vector<void (KilledRun::*)()> kills(6, &KilledRun::kill_anywhere);
  kills.insert(kills.end(), 3, &KilledRun::kill_while_writing);
  kills.push_back(&KilledRun::kill_before_latest);
  std::shuffle(kills.begin(), kills.end(), random);
  KilledRun killed(training, folder / "run", tensors_of_last_checkpoint(folder / "whole"), random);
  for (const auto kill : kills) (killed.*kill)();
  CHECK(hash_of(training.in(folder / "run") + Words{"--resume=auto"}, folder / "run") == whole);
}

}  // namespace lockstep::tests
