// Resuming when disks differ: each disk is a folder of its own, in which its ranks run, so that the relative
// RUN is another one there.
#include "tests/fault/resume_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

Words on_disks(const fs::path& folder, int disks, int ranks_of_each, const Words& more) {
  Words words = resumable("run", Words{"--checkpoint-every=10"} + more);
  words[1] = "--nproc_per_node=" + std::to_string(disks * ranks_of_each);
  words[4] = "cd " + folder.string() + "/$((RANK/" + std::to_string(ranks_of_each) + ")); " + words[4];
  return words;
}

/// Two disks with two ranks each, and 30 steps done.
void train_30_steps(const fs::path& folder) {
  for (const char* disk : {"0", "1"}) fs::create_directories(folder / disk);
  hash_of(on_disks(folder, 2, 2, {"--max-steps=30"}), folder / "0/run");
}

const std::string& forty_steps() {
  static const std::string hash = [] {
    const TemporaryFolder folder;
    for (const char* disk : {"0", "1"}) fs::create_directories(folder / disk);
    return hash_of(on_disks(folder.path(), 2, 2, {"--max-steps=40"}), folder / "0/run");
  }();
  return hash;
}

enum class Harm { lost, one_behind, newest_damaged };

void apply(Harm harm, const fs::path& run_dir) {
  const auto checkpoints = directory_of(run_dir);
  if (harm == Harm::lost) fs::remove_all(run_dir);
  if (harm == Harm::one_behind) fs::remove_all(checkpoints.path_of(30));
  if (harm == Harm::newest_damaged) fs::resize_file(checkpoints.path_of(30) / "model.safetensors", 1000);
}

TEST_CASE("two disks with two ranks each: one that lost, lacks or has a damaged newest checkpoint gets it") {
  const TemporaryFolder trained;
  train_30_steps(trained.path());
  for (const Harm harm : {Harm::lost, Harm::one_behind, Harm::newest_damaged}) {
    for (const char* disk : {"0", "1"}) {
      const TemporaryFolder folder;
      fs::copy(trained.path(), folder.path(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
      write_file(folder / "1/run/failure.json", "{}");  // of the part before
      apply(harm, folder / disk / "run");
      INFO("harm " << static_cast<int>(harm) << " of disk " << disk);
      CHECK(hash_of(on_disks(folder.path(), 2, 2, {"--max-steps=40", "--resume=auto"}), folder / "0/run") ==
            forty_steps());
      for (const char* each : {"0/run", "1/run"}) {
        for (const int step : {30, 40}) {
          CHECK(runtime::damage_of(directory_of(folder / each).path_of(step)).empty());
        }
        CHECK_FALSE(fs::exists(folder / each / "failure.json"));
      }
    }
  }
}

TEST_CASE("a disk that lost its run gets the checkpoint that latest names on the other disk") {
  const TemporaryFolder trained;
  train_30_steps(trained.path());
  for (const char* disk : {"0", "1"}) {
    const TemporaryFolder folder;
    fs::copy(trained.path(), folder.path(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    fs::remove_all(folder / disk / "run");
    INFO("disk " << disk);
    CHECK(hash_of(on_disks(folder.path(), 2, 2, {"--max-steps=40", "--resume=run/checkpoints/latest"}),
                  folder / "0/run") == forty_steps());
  }
}

// Large enough for the copy to another disk to be seen on its way.
const Words large{"--model=mlp", "--model-args=hidden=2048", "--optimizer=adam"};

bool receives_a_checkpoint(const fs::path& run_dir) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_dir / "checkpoints", error)) {
    if (entry.path().extension() == ".tmp") return true;
  }
  return false;
}

TEST_CASE("a run that is killed while a disk receives its checkpoint goes on to the same weights") {
  const TemporaryFolder folder;
  for (const char* disk : {"0", "1", "all"}) fs::create_directories(folder / disk);
  const auto words = [&](const Words& more) { return on_disks(folder.path(), 2, 1, large + more); };
  const std::string wanted = hash_of(words({"--max-steps=12"}), folder / "0/run");
  fs::remove_all(folder / "0/run");
  fs::remove_all(folder / "1/run");
  hash_of(words({"--max-steps=10"}), folder / "0/run");
  fs::remove_all(folder / "1/run");
  {
    Program killed(words({"--max-steps=12", "--resume=auto"}));
    wait_until_seen([&] { return receives_a_checkpoint(folder / "1/run"); });
    kill_whole(killed);
  }
  CHECK(hash_of(words({"--max-steps=12", "--resume=auto"}), folder / "0/run") == wanted);
  CHECK_FALSE(receives_a_checkpoint(folder / "1/run"));
}

TEST_CASE("the folder of a run that --batch-size auto looks for and cannot reach is named") {
  const TemporaryFolder folder;
  fs::create_symlink("loop", folder / "loop");
  Program run(trainer_words(
      1, {"--model=mlp", "--dataset=synthetic", "--samples=8", "--device=cpu", "--batch-size=auto",
          "--resume=auto", "--progress=none", "--run-dir=" + (folder / "loop/run").string()}));
  const int code = run.wait_for_end();
  INFO(run.output());
  CHECK(code == 3);
  CHECK_THAT(run.output(), contains("loop/run/config.ini: cannot be reached: Too many levels"));
}

}  // namespace
}  // namespace lockstep::tests
