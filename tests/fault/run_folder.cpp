// What may stand in RUN/ beside what a run put there, and who may use it.
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/host.h"
#include "kernels/base/safetensors.h"
#include "tests/fault/resume_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

const Words twenty{"--max-steps=20", "--checkpoint-every=10"};
const Words thirty{"--max-steps=30", "--checkpoint-every=10", "--resume=auto"};

struct Ending {
  int code;
  std::string output;
};

Ending ending_of(const Words& words) {
  Program run(words);
  const int code = run.wait_for_end();
  return {code, run.output()};
}

TEST_CASE("what is no checkpoint among checkpoints is passed over and named") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const std::string wanted = hash_of(resumable(folder / "other", {"--max-steps=30"}), folder / "other");
  hash_of(resumable(run_dir, twenty), run_dir);
  const fs::path checkpoints = run_dir / "checkpoints";
  REQUIRE(::mkfifo((checkpoints / "step-00000091").c_str(), 0600) == 0);
  fs::create_symlink("step-00000092", checkpoints / "step-00000092");
  fs::copy(checkpoints / "step-00000020", checkpoints / "step-00000093");
  fs::remove(checkpoints / "step-00000093/model.safetensors");
  REQUIRE(::mkfifo((checkpoints / "step-00000093/model.safetensors").c_str(), 0600) == 0);
  write_file(checkpoints / "step-00000094", "a file");
  fs::copy(checkpoints / "step-00000020", checkpoints / "step-00000095");
  if (::geteuid() == 0) REQUIRE(::chown((checkpoints / "step-00000095").c_str(), 12345, 12345) == 0);
  if (::geteuid() != 0) fs::remove(checkpoints / "step-00000095/manifest.json");
  fs::copy(checkpoints / "step-00000095", checkpoints / "step-000000000096");  // no name of ours
  const auto [code, output] = ending_of(resumable(run_dir, thirty + Words{"--timeout=5"}));
  INFO(output);
  CHECK(code == 0);
  CHECK_THAT(output, !contains("step-00000096"));
  for (const char* name : {"step-00000091 is no folder", "step-00000092 is a symbolic link",
                           "step-00000093/model.safetensors: is a FIFO, not a file",
                           "step-00000094 is no folder", "step-00000095"}) {
    CHECK_THAT(output, contains(name));
  }
  CHECK(hash_in(run_dir) == wanted);
}

TEST_CASE("a second run in the same folder is refused with the holder's name; the first is not disturbed") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const std::string wanted = hash_of(resumable(folder / "other", {"--max-steps=300"}), folder / "other");
  Program first(resumable(run_dir, {"--max-steps=300", "--checkpoint-every=10"}));
  first.wait_for(".\n", 2);
  wait_until_seen([&] { return logged_step(run_dir) >= 1; });
  for (const char* resume : {"auto", "none"}) {
    const auto [code, output] = ending_of(
        resumable(run_dir, {"--max-steps=300", "--checkpoint-every=10", std::string("--resume=") + resume}));
    CHECK(code == 2);
    CHECK_THAT(output, contains("is in use by " + host_name() + " process " +
                                std::to_string(first.number_after("pid0"))));
  }
  CHECK(first.wait_for_end() == 0);
  CHECK(hash_in(run_dir) == wanted);
}

TEST_CASE("a folder or file that others can write, a link, a pipe: refused with 2, and nothing is touched") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const auto refused = [&](const std::string& reason) {
    const auto [code, output] = ending_of(resumable(run_dir, thirty + Words{"--timeout=5"}));
    INFO(output);
    CHECK(code == 2);
    CHECK_THAT(output, contains(reason));
  };
  hash_of(resumable(run_dir, twenty), run_dir);
  ::chmod(run_dir.c_str(), 0777);
  refused("run can be written by everyone: chmod o-w");
  ::chmod(run_dir.c_str(), 0755);
  ::chmod((run_dir / "summary.json").c_str(), 0666);
  refused("summary.json can be written by everyone");
  ::chmod((run_dir / "summary.json").c_str(), 0644);
  if (::geteuid() == 0) {
    REQUIRE(::chown((run_dir / "config.ini").c_str(), 0, 12345) == 0);
    ::chmod((run_dir / "config.ini").c_str(), 0664);
    refused("config.ini can be written by group 12345, which is not yours");
    ::chmod((run_dir / "config.ini").c_str(), 0644);
  }
  write_file(folder / "elsewhere", "kept");
  fs::rename(run_dir / "log.jsonl", folder / "log.jsonl");
  fs::create_symlink(folder / "elsewhere", run_dir / "log.jsonl");
  refused("log.jsonl is a symbolic link: only the whole folder of a run may be elsewhere");
  CHECK(contents(folder / "elsewhere") == "kept");
  fs::remove(run_dir / "log.jsonl");
  REQUIRE(::mkfifo((run_dir / "log.jsonl").c_str(), 0600) == 0);
  refused("log.jsonl is no regular file");
  fs::remove(run_dir / "log.jsonl");
  fs::rename(folder / "log.jsonl", run_dir / "log.jsonl");
  hash_of(resumable(run_dir, thirty), run_dir);
}

TEST_CASE("of the links in a run only latest is followed, to a checkpoint beside it") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  hash_of(resumable(run_dir, twenty), run_dir);
  const fs::path latest = run_dir / "checkpoints/latest";
  const Words go_on{"--max-steps=30", "--resume=" + latest.string()};
  hash_of(resumable(run_dir, go_on), run_dir);
  fs::remove(latest);
  fs::create_symlink("../checkpoints/step-00000010", latest);
  const auto [code, output] = ending_of(resumable(run_dir, go_on));
  CHECK(code == 3);
  CHECK_THAT(output, contains("latest is a symbolic link: name what it points to"));
}

TEST_CASE("weights are not trained in the folder where they were found: 2, and nothing is touched") {
  const TemporaryFolder folder;
  const Words small{"--model=mlp", "--dataset=synthetic", "--samples=64", "--max-steps=1", "--eval-every=0"};
  train(1, small, folder / "run");
  fs::create_directories(folder / "theirs");
  const fs::path weights = folder / "theirs/model.safetensors";
  fs::copy(folder / "run/model.safetensors", weights);
  const auto [code, output] =
      ending_of(trainer_words(1, small + Words{"--init-from", (folder / "theirs").string(), "--run-dir",
                                               (folder / "theirs").string()}));
  CHECK(code == 2);
  CHECK_THAT(output, contains("theirs holds model.safetensors, which no run has made there"));
  CHECK(contents(weights) == contents(folder / "run/model.safetensors"));
  CHECK(files_in(folder / "theirs") == 1);
}

TEST_CASE("a checkpoint is found by what is typed in its run and beside it") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const Words small{"--model=mlp",    "--dataset=synthetic",  "--samples=640", "--threads=1",
                    "--eval-every=0", "--checkpoint-every=5", "--keep=0",      "--progress=plain"};
  train(1, small + Words{"--max-steps=10"}, run_dir);
  const auto [where, typed, step] =
      GENERATE(table<std::string, std::string, int>({{"run", "checkpoints/latest", 10},
                                                     {"run", "checkpoints", 10},
                                                     {"run", "checkpoints/step-00000005", 5},
                                                     {"run/checkpoints", "step-00000005", 5},
                                                     {"run/checkpoints", "latest", 10}}));
  CAPTURE(where, typed);
  const Words there{"/bin/sh", "-c", "cd " + (folder / where).string() + " && exec \"$0\" \"$@\"",
                    TRAINER_PROGRAM};
  const auto [code, output] = ending_of(there + small + Words{"--max-steps=15", "--resume=" + typed});
  INFO(output);
  CHECK(code == 0);
  CHECK_THAT(output, contains("goes on after step " + std::to_string(step) + " "));
  CHECK(nlohmann::json::parse(contents(run_dir / "summary.json"))["steps"] == 15);
}

TEST_CASE("a run's folder may have a name that is no UTF-8") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "caf\xe9";
  const std::string wanted = hash_of(resumable(folder / "other", {"--max-steps=30"}), folder / "other");
  hash_of(resumable(run_dir, twenty), run_dir);
  CHECK(hash_of(resumable(run_dir, thirty), run_dir) == wanted);
  const fs::path checkpoint = directory_of(run_dir).path_of(10);
  const Words named{"--max-steps=30", "--resume=" + checkpoint.string()};
  CHECK(hash_of(resumable(run_dir, named), run_dir) == wanted);
}

TEST_CASE("what a killed process left half-written goes at the next start") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  hash_of(resumable(run_dir, twenty), run_dir);
  write_file(run_dir / ".summary.json.0123456789abcdef.tmp", "{");
  fs::create_directories(run_dir / "checkpoints/.step-00000030.1.tmp");
  hash_of(resumable(run_dir, thirty), run_dir);
  CHECK_FALSE(fs::exists(run_dir / ".summary.json.0123456789abcdef.tmp"));
  CHECK_FALSE(fs::exists(run_dir / "checkpoints/.step-00000030.1.tmp"));
}

TEST_CASE("weights that are not finite are never saved: 6, with the tensor, though the loss is finite") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  for (const char* every : {"0", "1"}) {
    const auto [code, output] = ending_of(
        trainer_words(2, {"--model=mlp", "--dataset=synthetic", "--optimizer=sgd", "--lr=1e38",
                          "--weight-decay=1e38", "--max-steps=1", "--eval-every=0", "--progress=none",
                          std::string("--checkpoint-every=") + every, "--run-dir", run_dir.string()}));
    INFO(output);
    CHECK(code == 6);
    // A rank that writes nothing knows of those that do.
    CHECK_THAT(output, contains("rank 0: error: 1.weight is not finite after step 1") &&
                           contains("rank 1: error: 1.weight is not finite after step 1"));
    CHECK_FALSE(fs::exists(run_dir / "model.safetensors"));
    CHECK(directory_of(run_dir).steps().empty());
  }
}

/// 64 samples of 8 features, all of `value`.
void write_samples(const fs::path& file, float value) {
  const std::vector<float> inputs(64 * 8, value);
  const std::vector<std::int64_t> targets(64, 1);
  const std::vector<SafetensorsFile::Tensor> tensors{
      {.name = "inputs", .dtype = DType::f32, .shape = {64, 8}, .bytes = std::as_bytes(std::span(inputs))},
      {.name = "targets", .dtype = DType::i64, .shape = {64}, .bytes = std::as_bytes(std::span(targets))}};
  write_safetensors(file, tensors);
}

TEST_CASE("an optimizer's state that is not finite is never saved: 6, though weights and loss are finite") {
  const TemporaryFolder folder;
  write_samples(folder / "data.safetensors", 1e23F);  // the squares of gradients overflow
  const auto [code, output] = ending_of(trainer_words(
      1, {"--model=mlp", "--dataset=tensors", "--data-dir", (folder / "data.safetensors").string(),
          "--optimizer=adam", "--max-steps=1", "--batch-size=4", "--checkpoint-every=1", "--eval-every=0",
          "--progress=none", "--run-dir", (folder / "run").string()}));
  INFO(output);
  CHECK(code == 6);
  CHECK_THAT(output, contains("weight.exp_avg_sq is not finite after step 1"));
  CHECK(directory_of(folder / "run").steps().empty());
}

TEST_CASE("data that changed since the checkpoint is noticed") {
  const TemporaryFolder folder;
  const fs::path data = folder / "data.safetensors";
  const auto go_on = [&](const std::string& steps) {
    return ending_of(
        trainer_words(2, {"--model=mlp", "--dataset=tensors", "--data-dir", data.string(), "--max-steps",
                          steps, "--batch-size=4", "--checkpoint-every=2", "--eval-every=0", "--resume=auto",
                          "--run-dir", (folder / "run").string()}));
  };
  write_samples(data, 0.5F);
  const auto first = go_on("2");
  INFO(first.output);
  REQUIRE(first.code == 0);
  CHECK(go_on("4").code == 0);
  write_samples(data, 0.25F);
  const auto [code, output] = go_on("6");
  CHECK(code == 2);
  CHECK_THAT(output, contains("was made with contents of the training set"));
}

TEST_CASE("a data file that is cut while a run reads it: 3, with its name") {
  const TemporaryFolder folder;
  const fs::path data = folder / "data.safetensors";
  write_samples(data, 0.5F);
  Program run(trainer_words(2, {"--model=mlp", "--dataset=tensors", "--data-dir", data.string(),
                                "--batch-size=4", "--max-steps=100000000", "--eval-every=0", "--log-every=1",
                                "--progress=none", "--run-dir", (folder / "run").string()}));
  wait_until_seen([&] { return logged_step(folder / "run") >= 1; });
  fs::resize_file(data, 0);
  CHECK(run.wait_for_end() == 3);
  const std::string said = data.string() + ": was cut while it was in use; restore it, and go on";
  INFO(run.output());
  CHECK_THAT(run.output(), contains("error: " + said) && contains("launch:   it said: " + said));
  CHECK_THAT(contents(folder / "run/failure.json"), contains(said));
}

TEST_CASE("failure.json goes when a later part of the run succeeds") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  {
    Program run(resumable(run_dir, {"--max-steps=100000", "--checkpoint-every=10"}));
    run.wait_for(".\n", 2);
    wait_until_seen([&] { return !directory_of(run_dir).steps().empty(); });
    ::kill(run.number_after("pid1"), SIGKILL);
    run.wait_for_end();
  }
  REQUIRE(fs::exists(run_dir / "failure.json"));
  const std::int64_t done = directory_of(run_dir).steps().front();
  hash_of(resumable(run_dir,
                    {"--max-steps=" + std::to_string(done + 5), "--checkpoint-every=10", "--resume=auto"}),
          run_dir);
  CHECK_FALSE(fs::exists(run_dir / "failure.json"));
}

TEST_CASE(
    "going on with a run that has ended puts right what a kill left: failure.json, latest, the marker") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const Words words = resumable(run_dir, {"--max-steps=6", "--checkpoint-every=3", "--resume=auto"});
  hash_of(words, run_dir);
  const fs::path latest = run_dir / "checkpoints/latest";
  fs::remove(latest);
  fs::create_symlink("step-00000003", latest);
  write_file(run_dir / "failure.json", "{}");
  write_file(run_dir / ".same-disk.0123456789abcdef.tmp", "");
  hash_of(words, run_dir);
  CHECK(fs::read_symlink(latest) == "step-00000006");
  CHECK_FALSE(fs::exists(run_dir / "failure.json"));
  CHECK_FALSE(fs::exists(run_dir / ".same-disk.0123456789abcdef.tmp"));
}

}  // namespace
}  // namespace lockstep::tests
