// A run whose steps draw random numbers and keep more than weights from step to step: dropout, micro-batches,
// transformed pictures, an average of the weights.
#include <algorithm>
#include <random>

#include "tests/fault/disk_kills.h"
#include "tests/fault/resume_runs.h"
#include "tests/unit/data/picture_folder.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t steps = 100;

/// 76 pictures: four steps of 16 and one of 12, whose second micro-batch has 2 samples on each rank.
Words featured(const fs::path& folder, const fs::path& run_dir) {
  return telling_pids({"--model=mobilenet_v3_small", "--model-args=dropout=0.3",
                       "--dataset=" + (folder / "pictures").string(),
                       "--transform=random-resized-crop=32,flip,normalise=imagenet", "--batch-size=4",
                       "--accumulate-steps=2", "--ema=0.9", "--lr-schedule=cosine",
                       "--max-steps=" + std::to_string(steps), "--checkpoint-every=8", "--eval-every=0",
                       "--log-every=1", "--threads=1", "--progress=none", "--run-dir=" + run_dir.string()});
}

/// A run that goes on where it is, and is killed.
class KilledRun {
 public:
  KilledRun(Words words, fs::path run_dir, std::mt19937& random)
      : words_(std::move(words) + Words{"--resume=auto"}), run_dir_(std::move(run_dir)), random_(random) {}

  /// Anywhere within a step.
  void kill_anywhere() {
    const std::int64_t goal = std::min(logged_step(run_dir_) + draw(1, 12), steps - 1);
    Program run(words_);
    wait_until_seen([&] { return logged_step(run_dir_) >= goal; });
    for (int look = draw(0, 100); look > 0; --look) logged_step(run_dir_);
    kill_whole(run);
  }

  void kill_while_writing() {
    kill_at("write", draw(1, writes_of_a_checkpoint), ".step-");
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
  static constexpr int writes_of_a_checkpoint = 670;  // one for each tensor, and for each file's rest

  int draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  void kill_at(const std::string& call, int count, const std::string& beginning) {
    CAPTURE(call, count);
    Program run(killed_whole_at(call, count, run_dir_ / "checkpoints" / beginning, words_));
    CHECK(run.wait_for_end() == 128 + SIGKILL);
    INFO(run.output());
    require_ranks_gone(run);
  }

  bool has_begun_checkpoint() const {
    return std::ranges::any_of(fs::directory_iterator(run_dir_ / "checkpoints"), [](const auto& entry) {
      return entry.path().filename().string().ends_with(".tmp");
    });
  }

  fs::path linked_by_latest() const {
    const fs::path latest = run_dir_ / "checkpoints" / "latest";
    return fs::is_symlink(latest) ? fs::read_symlink(latest) : fs::path();
  }

  Words words_;
  fs::path run_dir_;
  std::mt19937& random_;
};

TEST_CASE("dropout, micro-batches, random transforms and averaged weights: killed whole at ten moments") {
  const TemporaryFolder folder;
  data::testing::write_picture_folder(folder / "pictures", 76);
  const auto words = [&](const char* name) { return featured(folder.path(), folder / name); };
  const std::string whole = hash_of(words("whole"), folder / "whole");

  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::vector<void (KilledRun::*)()> kills(6, &KilledRun::kill_anywhere);
  kills.insert(kills.end(), 3, &KilledRun::kill_while_writing);
  kills.push_back(&KilledRun::kill_before_latest);
  std::shuffle(kills.begin(), kills.end(), random);
  KilledRun killed(words("run"), folder / "run", random);
  for (const auto kill : kills) (killed.*kill)();

  CHECK(hash_of(words("run") + Words{"--resume=auto"}, folder / "run") == whole);
}

}  // namespace
}  // namespace lockstep::tests
