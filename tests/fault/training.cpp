#include "tests/support/training.h"

#include <array>
#include <chrono>
#include <csignal>
#include <limits>

#include "kernels/base/safetensors.h"
#include "tests/support/full_disk.h"
#include "tests/support/variable.h"

namespace lockstep::tests {
namespace {

using tests::contains;

/// Runs for ever on tiny data; every rank tells its pid first.
Words endless(int ranks, const std::filesystem::path& run_dir, const Words& more = {}) {
  const std::string command = "echo pid$RANK=$$.; exec \"$0\" \"$@\"";
  return Words{LAUNCH_PROGRAM,
               "--nproc_per_node=" + std::to_string(ranks),
               "sh",
               "-c",
               command,
               TRAINER_PROGRAM,
               "--model=mlp",
               "--dataset=synthetic",
               "--samples=512",
               "--epochs=1000000",
               "--eval-every=0",
               "--progress=plain",
               "--run-dir=" + run_dir.string()} +
         more;
}

void wait_for_first_step(Program& run, int ranks) {
  run.wait_for(".\n", ranks);
  run.wait_for("step ");
}

/// The one line of an error, without its prefix.
std::string error_of(const Words& options, int wanted_code, int ranks = 1) {
  Program run(trainer_words(ranks, options));
  const int code = run.wait_for_end();
  INFO(run.output());
  CHECK(code == wanted_code);
  return run.output();
}

TEST_CASE("kill -9 of any rank ends the run: it is named with its signal, and no process is left") {
  const int victim = GENERATE(0, 1, 2);
  const TemporaryFolder folder;
  Program run(endless(3, folder.path() / "run"));
  wait_for_first_step(run, 3);
  const pid_t killed = run.number_after("pid" + std::to_string(victim));
  const auto start = Clock::now();
  ::kill(killed, SIGKILL);
  CHECK(run.wait_for_end() == 128 + SIGKILL);
  CHECK(Clock::now() - start < std::chrono::seconds(5));
  CHECK_THAT(run.output(), contains("rank " + std::to_string(victim) + " (pid " + std::to_string(killed) +
                                    ") was killed by SIGKILL"));
  for (int rank = 0; rank < 3; ++rank) CHECK(wait_until_gone(run.number_after("pid" + std::to_string(rank))));
}

TEST_CASE("a stopped rank is found by the deadline, named, and killed") {
  const int victim = GENERATE(0, 1);
  const TemporaryFolder folder;
  Program run(endless(2, folder.path() / "run", {"--timeout=1"}));
  wait_for_first_step(run, 2);
  const pid_t stopped = run.number_after("pid" + std::to_string(victim));
  const auto start = Clock::now();
  stop(stopped);
  CHECK(run.wait_for_end() == 5);
  CHECK(Clock::now() - start < std::chrono::seconds(6));
  CHECK_THAT(run.output(), contains("rank " + std::to_string(victim) + " ") && contains("within 1 s"));
  CHECK(wait_until_gone(stopped));
}

TEST_CASE("SIGTERM to one rank stops all at the same step, with weights saved, and 75") {
  const TemporaryFolder folder;
  const auto run_dir = folder.path() / "run";
  Program run(endless(2, run_dir));
  wait_for_first_step(run, 2);
  ::kill(run.number_after("pid1"), SIGTERM);
  CHECK(run.wait_for_end() == 75);
  const auto summary = nlohmann::json::parse(contents(run_dir / "summary.json"));
  CHECK(summary["stopped"] == true);
  CHECK(std::filesystem::exists(run_dir / "model.safetensors"));
}

TEST_CASE("wrong use: one line and 2") {
  CHECK_THAT(error_of({"--model", "convnt"}, 2), contains("unknown model 'convnt', did you mean 'convnet'?"));
  CHECK_THAT(error_of({"--model", "mlp", "--dataset", "fashon-mnist"}, 2),
             contains("did you mean 'fashion-mnist'?"));
  CHECK_THAT(error_of({"--world-size", "2"}, 2), contains("`launch --nproc_per_node=N trainer ...`"));
  CHECK_THAT(error_of({"--model", "MLP", "--dataset", "FakeData", "--backend", "nccl", "--device", "cpu"}, 2),
             contains("use --backend host"));
  CHECK_THAT(error_of({"list-models"}, 2), contains("type `trainer models`"));
  CHECK_THAT(error_of({"tarin"}, 2), contains("unknown command 'tarin', did you mean 'train'?"));
  CHECK_THAT(error_of({"--model", "linear", "--dataset", "fashion-mnist"}, 2), contains("learns values"));
  CHECK_THAT(error_of({}, 2), contains("--model NAME is needed"));
  CHECK_THAT(error_of({"--model=mlp", "--dataset=synthetic", "--momentum=0.9"}, 2),
             contains("--momentum is not read by --optimizer adam"));
  CHECK_THAT(error_of({"plan", "--model=mlp", "--samples=1000"}, 2),
             contains("--samples is not read by --dataset fashion-mnist"));
}

TEST_CASE("a trainer that fails writes its cause and exit code where an agent as torchrun's reads them") {
  struct Failure {
    Words options;
    int code;
  };
  const auto failure = GENERATE(
      Failure{{"--model=convnt"}, 2},
      Failure{{"--model=linear", "--dataset=synthetic", "--optimizer=sgd", "--lr=1e30", "--eval-every=0"},
              6});
  const TemporaryFolder folder;
  const auto file = folder / "error.json";
  const Variable variable("TORCHELASTIC_ERROR_FILE", file.string());
  const auto start = std::chrono::system_clock::now();
  const std::string said =
      error_of(failure.options + Words{"--run-dir", (folder / "run").string()}, failure.code);
  const auto cause = nlohmann::json::parse(contents(file)).at("message");
  CHECK_THAT(said, contains("error: " + cause.at("message").get<std::string>() + "\n"));
  const auto& more = cause.at("extraInfo");
  CHECK(more.at("exit_code") == failure.code);
  const auto seconds_of = [](auto time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  };
  const std::int64_t told = std::stoll(more.at("timestamp").get<std::string>());
  CHECK(told >= seconds_of(start));
  CHECK(told <= seconds_of(std::chrono::system_clock::now()));
}

TEST_CASE("a folder that holds a run is left alone") {
  const TemporaryFolder folder;
  const Words options{"--model=mlp", "--dataset=synthetic", "--samples=64", "--eval-every=0"};
  train(1, options, folder.path());
  const std::string before = contents(folder.path() / "summary.json");
  CHECK_THAT(error_of(options + Words{"--run-dir", folder.path().string()}, 2),
             contains("holds a finished run"));
  CHECK(contents(folder.path() / "summary.json") == before);
}

TEST_CASE("a run that is refused takes the folder away that it has made, and no other") {
  const int ranks = GENERATE(1, 2);
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "theirs");
  for (const char* name : {"new", "theirs"}) {
    CHECK_THAT(error_of({"--model=mlp", "--dataset=synthetic", "--samples=64", "--lr-schedule=cosine",
                         "--max-steps=5", "--warmup-steps=5", "--eval-every=0", "--run-dir",
                         (folder / name).string()},
                        2, ranks),
               contains("--warmup-steps 5 leaves none of 5 steps"));
  }
  CHECK_FALSE(std::filesystem::exists(folder / "new"));
  CHECK(std::filesystem::exists(folder / "theirs/lock"));
}

TEST_CASE("a truncated data file: 3, with file and offset") {
  const TemporaryFolder folder;
  const std::string header("\0\0\x08\x03\0\0\0\x0A\0\0\0\x1C\0\0\0\x1C", 16);
  write_file(folder.path() / "train-images-idx3-ubyte", header + std::string(100, 'x'));
  write_file(folder.path() / "train-labels-idx1-ubyte",
             std::string("\0\0\x08\x01\0\0\0\x0A", 8) + std::string(10, '\1'));
  CHECK_THAT(error_of({"--model=mlp", "--data-dir", folder.path().string(), "--run-dir",
                       (folder.path() / "run").string()},
                      3),
             contains("train-images-idx3-ubyte") && contains("116"));
}

TEST_CASE("a loss that is no number: 6, with the step") {
  const TemporaryFolder folder;
  CHECK_THAT(error_of({"--model=linear", "--dataset=synthetic", "--optimizer=sgd", "--lr=1e30",
                       "--max-steps=50", "--eval-every=0", "--run-dir", (folder.path() / "run").string()},
                      6),
             contains("not finite at step"));
}

TEST_CASE("an evaluation whose loss is no number: 6, though weights and the step's loss are some") {
  const TemporaryFolder folder;
  CHECK_THAT(error_of({"--model=linear", "--dataset=synthetic", "--optimizer=sgd", "--lr=1e30",
                       "--max-steps=1", "--eval-samples=8", "--run-dir", (folder.path() / "run").string()},
                      6),
             contains("the loss on the test set is not finite after step 1 (epoch 1)"));
}

SafetensorsFile::Tensor filled(const std::string& name, std::span<const float> values, Shape shape) {
  return {.name = name, .dtype = DType::f32, .shape = std::move(shape), .bytes = std::as_bytes(values)};
}

TEST_CASE("one bad sample: 6, with step and rank, and with --detect-anomaly the first op") {
  const TemporaryFolder folder;
  const std::filesystem::path data = folder.path() / "data.safetensors";
  std::array<float, 80> inputs{};
  const std::array<float, 8> targets{};
  inputs[51] = std::numeric_limits<float>::infinity();  // in sample 5, the first of rank 1 in step 2
  write_safetensors(data, std::array{filled("inputs", inputs, {8, 10}), filled("targets", targets, {8, 1})});
  const Words options{"--model=linear", "--dataset=tensors", "--data-dir", data.string(),   "--no-shuffle",
                      "--batch-size=2", "--num-workers=1",   "--epochs=1", "--eval-every=0"};
  CHECK_THAT(error_of(options + Words{"--run-dir", (folder.path() / "run").string()}, 6, 2),
             contains("the loss of rank 1 is not finite at step 2 "));
  const Words looking{"--detect-anomaly", "--run-dir", (folder.path() / "looking").string()};
  CHECK_THAT(error_of(options + looking, 6, 2),
             contains("rank 1, step 2, linear: the first result that is not finite, ") &&
                 contains(" at element 0 of output 0 (forward)"));
}

TEST_CASE("--detect-anomaly names backward and update, too, and changes no bit") {
  const TemporaryFolder folder;
  const Words options{"--model=convnet", "--dataset=synthetic", "--samples=64", "--batch-size=8",
                      "--max-steps=6",   "--eval-every=0",      "--ema=0.5"};
  const auto plain = train(2, options, folder / "plain");
  const auto looking = train(2, options + Words{"--detect-anomaly"}, folder / "looking");
  CHECK(plain["weights_sha256"] == looking["weights_sha256"]);
  CHECK_THAT(error_of(options + Words{"--detect-anomaly", "--optimizer=sgd", "--lr=1e38", "--momentum=0.9",
                                      "--run-dir", (folder / "run").string()},
                      6),
             contains("rank 0, step ") && contains("the first result that is not finite"));
}

TEST_CASE("with clipping, gradients that are no numbers: 6, though the loss is one") {
  const TemporaryFolder folder;
  const std::filesystem::path data = folder.path() / "data.safetensors";
  const std::filesystem::path weights = folder.path() / "weights.safetensors";
  std::array<float, 40> inputs;
  inputs.fill(1e38F);
  const std::array<float, 4> targets{1e10F, 1e10F, 1e10F, 1e10F};
  const std::array<float, 10> zeros{};
  write_safetensors(data, std::array{filled("inputs", inputs, {4, 10}), filled("targets", targets, {4, 1})});
  write_safetensors(
      weights, std::array{filled("weight", zeros, {1, 10}), filled("bias", std::span(zeros).first(1), {1})});
  CHECK_THAT(error_of({"--model=linear", "--dataset=tensors", "--data-dir", data.string(), "--init-from",
                       weights.string(), "--optimizer=sgd", "--batch-size=4", "--clip-grad-norm=1",
                       "--max-steps=5", "--eval-every=0", "--run-dir", (folder.path() / "run").string()},
                      6),
             contains("the gradients' norm is not finite at step 1 "));
}

TEST_CASE("a full disk: 4, the file is named") {
  const TemporaryFolder folder;
  const Words words = trainer_words(1, {"--model=mlp", "--dataset=synthetic", "--samples=640",
                                        "--eval-every=0", "--run-dir=" + (folder.path() / "run").string()});
  check_on_full_disk(folder.path(), words, [](const std::string& output) {
    return output.find("model.safetensors") != std::string::npos;
  });
}

}  // namespace
}  // namespace lockstep::tests
