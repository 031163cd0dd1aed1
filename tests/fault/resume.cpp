#include <fstream>

#include "tests/fault/resume_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

const Words checkpointed{"--max-steps=200", "--checkpoint-every=10"};
constexpr std::int64_t steps_per_epoch = 34;

/// Of a run that nothing disturbs.
const std::string& undisturbed() {
  static const std::string hash = [] {
    const TemporaryFolder folder;
    return hash_of(resumable(folder / "run", {"--max-steps=200"}), folder / "run");
  }();
  return hash;
}

std::string resumed(const fs::path& run_dir) {
  return hash_of(resumable(run_dir, checkpointed + Words{"--resume=auto"}), run_dir);
}

bool writes_a_checkpoint(const fs::path& run_dir) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_dir / "checkpoints", error)) {
    if (entry.path().extension() == ".tmp") return true;
  }
  return false;
}

enum class Moment { before_any_checkpoint, half_of_one, just_renamed, in_the_third_epoch };

bool has_come(Moment moment, const fs::path& run_dir) {
  switch (moment) {
    case Moment::before_any_checkpoint:
      return logged_step(run_dir) >= 1;
    case Moment::half_of_one:
      return writes_a_checkpoint(run_dir);
    case Moment::just_renamed:
      return !directory_of(run_dir).steps().empty();
    case Moment::in_the_third_epoch:
      return logged_step(run_dir) >= 2 * steps_per_epoch;
  }
  return true;
}

TEST_CASE("a run that is killed whole goes on to the same weights") {
  const Moment moment = GENERATE(Moment::before_any_checkpoint, Moment::half_of_one, Moment::just_renamed,
                                 Moment::in_the_third_epoch);
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  {
    Program run(resumable(run_dir, checkpointed));
    wait_until_seen([&] { return has_come(moment, run_dir); });
    kill_whole(run);
  }
  REQUIRE_FALSE(fs::exists(run_dir / "summary.json"));
  CHECK(resumed(run_dir) == undisturbed());
}

TEST_CASE("log.jsonl has every step once after a restart") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  {
    Program run(resumable(run_dir, checkpointed));
    wait_until_seen([&] { return logged_step(run_dir) >= 25; });
    kill_whole(run);
  }
  std::ofstream(run_dir / "log.jsonl", std::ios::app) << R"({"time":1,"ste)";  // what a kill may leave
  resumed(run_dir);
  std::ifstream log(run_dir / "log.jsonl");
  std::int64_t step = 0;
  for (std::string line; std::getline(log, line);) CHECK(nlohmann::json::parse(line)["step"] == ++step);
  CHECK(step == 200);
}

TEST_CASE("a stopped run names its checkpoint, leaves with 75, and goes on to the same weights") {
  const int signal_number = GENERATE(SIGTERM, SIGUSR1);
  const std::string victim = GENERATE("rank 0", "rank 1", "launch");
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const Words run_words = resumable(run_dir, {"--max-steps=200", "--progress=plain"});
  {
    Program run(run_words);
    run.wait_for(".\n", 2);
    wait_until_seen([&] { return logged_step(run_dir) >= 5; });
    ::kill(victim == "launch" ? run.pid() : run.number_after("pid" + victim.substr(5)), signal_number);
    CHECK(run.wait_for_end() == 75);
    const fs::path saved = directory_of(run_dir).path_of(directory_of(run_dir).steps().front());
    CHECK_THAT(run.output(), contains("saved " + saved.string() + "; go on with --resume auto --run-dir " +
                                      run_dir.string()));
  }
  CHECK(hash_of(run_words + Words{"--resume=auto"}, run_dir) == undisturbed());
}

TEST_CASE(
    "a stop acts between two batches of an evaluation: all save, leave with 75, and evaluate on resume") {
  const bool ends_training = GENERATE(true, false);  // the evaluation of the run's last epoch, or of another
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const auto evaluating = [&](const char* samples) {
    Words words = resumable(run_dir, {ends_training ? "--epochs=1" : "--epochs=2", "--eval-every=1"});
    return words + Words{std::string("--eval-samples=") + samples};
  };
  {
    Program run(evaluating("4000000"));
    run.wait_for(".\n", 2);
    wait_until_seen([&] { return logged_step(run_dir) == 34; });  // of the first epoch the last
    ::kill(run.number_after("pid1"), SIGTERM);
    CHECK(run.wait_for_end() == 75);
  }
  CHECK(directory_of(run_dir).steps() == std::vector<std::int64_t>{34});
  CHECK(contents(run_dir / "log.jsonl").find("accuracy") == std::string::npos);
  hash_of(evaluating("100") + Words{"--resume=auto"}, run_dir);
  const auto summary = nlohmann::json::parse(contents(run_dir / "summary.json"));
  CHECK(summary["eval"]["samples"] == 100);
  CHECK(summary["steps"] == (ends_training ? 34 : 68));
}

TEST_CASE("one rank alone stops, saves and goes on") {
  const TemporaryFolder folder;
  const Words words{TRAINER_PROGRAM,  "--model=mlp",      "--dataset=synthetic",
                    "--samples=640",  "--max-steps=2000", "--threads=1",
                    "--eval-every=0", "--log-every=1",    "--progress=none"};
  const auto in = [&](const char* name) { return words + Words{"--run-dir=" + (folder / name).string()}; };
  {
    Program run(in("stopped"));
    wait_until_seen([&] { return logged_step(folder / "stopped") >= 3; });
    ::kill(run.pid(), SIGTERM);
    CHECK(run.wait_for_end() == 75);
  }
  CHECK(hash_of(in("stopped") + Words{"--resume=auto"}, folder / "stopped") ==
        hash_of(in("whole"), folder / "whole"));
}

TEST_CASE("a second ^C ends a rank at once, with nothing saved") {
  const TemporaryFolder folder;
  Program run(resumable(folder / "run", {"--max-steps=1000000"}));
  run.wait_for(".\n", 2);
  wait_until_seen([&] { return logged_step(folder / "run") >= 1; });
  const pid_t rank_1 = run.number_after("pid1");
  stop(run.number_after("pid0"));  // so that the step in which they would stop never ends
  // The same key again and again: what comes within half a second is one.
  wait_until_seen([&] {
    ::kill(rank_1, SIGINT);
    return wait_until_gone(rank_1, Seconds(0.01));
  });
  CHECK(run.wait_for_end() == 128 + SIGINT);
  CHECK(directory_of(folder / "run").steps().empty());
}

TEST_CASE("damaged checkpoints are named and passed over for the one before") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  hash_of(resumable(run_dir, checkpointed + Words{"--keep=4"}), run_dir);
  const auto checkpoints = directory_of(run_dir);
  REQUIRE(checkpoints.steps() == std::vector<std::int64_t>{200, 190, 180, 170});
  fs::resize_file(checkpoints.path_of(200) / "model.safetensors", 1000);
  fs::remove(checkpoints.path_of(190) / "manifest.json");
  std::fstream(checkpoints.path_of(180) / "optimizer.safetensors", std::ios::in | std::ios::out).seekp(5000)
      << '!';
  Program run(resumable(run_dir, checkpointed + Words{"--resume=auto", "--progress=plain"}));
  CHECK(run.wait_for_end() == 0);
  CHECK_THAT(run.output(), contains("step-00000200/model.safetensors has 1000 bytes") &&
                               contains("step-00000190/manifest.json is missing") &&
                               contains("step-00000180/optimizer.safetensors does not have the SHA-256") &&
                               contains("goes on after step 170"));
  CHECK(hash_in(run_dir) == undisturbed());
}

TEST_CASE("ranks with disks of their own: who lost its checkpoints gets them from the other") {
  // Each rank runs in its own folder, so the relative RUN is another one for each.
  const int loser = GENERATE(0, 1);
  const TemporaryFolder folder;
  for (const char* rank : {"0", "1"}) fs::create_directories(folder / rank);
  Words words = resumable("run", checkpointed);
  words[4] = "cd " + folder.path().string() + "/$RANK; " + words[4];
  {
    Program run(words);
    wait_until_seen([&] { return logged_step(folder / "0/run") >= 35; });
    kill_whole(run);
  }
  const fs::path kept = folder / std::to_string(1 - loser) / "run";
  const fs::path lost = folder / std::to_string(loser) / "run";
  CHECK_FALSE(directory_of(kept).steps().empty());
  fs::remove_all(lost);
  CHECK(hash_of(words + Words{"--resume=auto"}, folder / "0/run") == undisturbed());
  for (const fs::path& run_dir : {kept, lost}) {
    CHECK(runtime::damage_of(directory_of(run_dir).path_of(200)).empty());
    CHECK(directory_of(run_dir).steps().size() == 3);
  }
  CHECK(contents(kept / "checkpoints/latest/manifest.json") ==
        contents(lost / "checkpoints/latest/manifest.json"));
}

TEST_CASE("what must be equal is named with both values; nothing is touched") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  hash_of(resumable(run_dir, {"--max-steps=4", "--checkpoint-every=2"}), run_dir);
  const std::string summary = contents(run_dir / "summary.json");
  const auto refusal = [&](const Words& more, int wanted_code) {
    Program run(resumable(run_dir, Words{"--max-steps=4"} + more));
    CHECK(run.wait_for_end() == wanted_code);
    return run.output();
  };
  CHECK_THAT(refusal({}, 2), contains("already holds a run: go on with --resume auto"));
  CHECK_THAT(refusal({"--resume=auto", "--lr=0.5"}, 2), contains("--lr 0.001 (now 0.5)"));
  CHECK_THAT(refusal({"--resume=auto", "--optimizer=sgd"}, 2), contains("--optimizer adam (now sgd)"));
  CHECK_THAT(refusal({"--resume=" + (folder / "none").string()}, 2), contains("already holds a run"));
  CHECK_THAT(refusal({"--resume=" + (run_dir / "checkpoints/step-00000003").string()}, 3),
             contains("there is no checkpoint"));
  CHECK_THAT(refusal({"--resume=" + (run_dir / "checkpoints/step-00000004/model.safetensors").string()}, 2),
             contains("is a file; name the folder RUN/checkpoints/step-N, or its RUN"));
  CHECK(contents(run_dir / "summary.json") == summary);
}

TEST_CASE(
    "a checkpoint of format 1, whose positions were those of one rank: 3, with file, format and version") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  hash_of(resumable(run_dir, {"--max-steps=10", "--checkpoint-every=10"}), run_dir);
  const fs::path checkpoint = directory_of(run_dir).path_of(10);
  auto state = nlohmann::json::parse(contents(checkpoint / "state.json"));
  CHECK(state["format"] == 3);
  CHECK(state["epoch"] == 0);
  CHECK(state["epoch_samples"] == 80);  // 10 steps of 4 on each of 2 ranks
  CHECK(state["samples"] == 80);
  const Words alone = trainer_words(
      1, {"--model=convnet", "--dataset=synthetic", "--samples=268", "--batch-size=8", "--eval-every=0",
          "--max-steps=10", "--checkpoint-every=10", "--run-dir=" + (folder / "alone").string()});
  hash_of(alone, folder / "alone");
  const auto state_alone =
      nlohmann::json::parse(contents(directory_of(folder / "alone").path_of(10) / "state.json"));
  for (const char* field : {"step", "epoch", "epoch_samples", "samples"}) {
    CHECK(state_alone[field] == state[field]);
  }
  state["format"] = 1;
  state["batch"] = 10;
  state.erase("epoch_samples");
  write_file(checkpoint / "state.json", state.dump());
  runtime::write_manifest(checkpoint);
  Program run(resumable(run_dir, {"--max-steps=20", "--resume=auto"}));
  CHECK(run.wait_for_end() == 3);
  CHECK_THAT(run.output(), contains((checkpoint / "state.json").string() + ": was written by Lockstep ") &&
                               contains("in format 1; this version reads format 3"));
}

TEST_CASE("a launcher's restart resumes by itself; a named checkpoint starts another run") {
  const TemporaryFolder folder;
  const Words words{TRAINER_PROGRAM, "--model=mlp",    "--dataset=synthetic",
                    "--samples=640", "--eval-every=0", "--progress=plain"};
  const auto run_in = [&](const Words& before, const char* name, const Words& more) {
    Program run(before + words + Words{"--run-dir=" + (folder / name).string()} + more);
    const int code = run.wait_for_end();
    INFO(run.output());
    CHECK(code == 0);
    return run.output();
  };
  const Words job{"/usr/bin/env", "SLURM_JOB_ID=77"};
  run_in(job, "one", {"--max-steps=10", "--checkpoint-every=5"});
  const std::string checkpoint = (folder / "one/checkpoints/step-00000005").string();
  CHECK_THAT(run_in({}, "two", {"--max-steps=20", "--resume=" + checkpoint}),
             contains("goes on after step 5"));
  CHECK_THAT(run_in(job + Words{"SLURM_RESTART_COUNT=1"}, "one", {"--max-steps=20"}),
             contains("goes on after step 10"));
  CHECK(hash_in(folder / "one") == hash_in(folder / "two"));
}

TEST_CASE("a finished run is left as it is, and goes on when it may train longer") {
  const TemporaryFolder folder;
  const auto run_for = [&](const char* name, const Words& more) {
    Program run(Words{TRAINER_PROGRAM, "--model=mlp", "--dataset=synthetic", "--samples=640", "--threads=1",
                      "--eval-every=1", "--progress=plain", "--run-dir=" + (folder / name).string()} +
                more);
    CHECK(run.wait_for_end() == 0);
    return run.output();
  };
  run_for("run", {"--epochs=2", "--checkpoint-every=7"});
  const std::string summary = contents(folder / "run/summary.json");
  CHECK_THAT(run_for("run", {"--epochs=2", "--resume=auto"}),
             contains("nothing is left to do after 20 steps"));
  CHECK(contents(folder / "run/summary.json") == summary);
  CHECK_THAT(run_for("run", {"--epochs=3", "--resume=auto"}), contains("goes on after step 20"));
  run_for("whole", {"--epochs=3"});
  CHECK(hash_in(folder / "run") == hash_in(folder / "whole"));
  CHECK(nlohmann::json::parse(contents(folder / "run/summary.json"))["eval"] ==
        nlohmann::json::parse(contents(folder / "whole/summary.json"))["eval"]);
}

}  // namespace
}  // namespace lockstep::tests
