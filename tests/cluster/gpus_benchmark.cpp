#include <fmt/format.h>

#include "tests/cluster/gpus.h"
#include "tests/cluster/saved_state.h"
#include "tests/support/json_lines.h"

namespace lockstep::tests {
namespace {

const Words options =
    small_images + sgd + Words{"--model=convnet", "--batch-size=16", "--device=cuda", "--checkpoint-every=6"};

/// Of convnet: five of convolutions, and three of each of its linear maps.
constexpr std::size_t timed_ops = 5 + 2 * 3;

bool is_of_convolution(const std::string& op) {
  return op.find("conv2d") != std::string::npos;
}

/// As if the run had been made with `algorithm` for every convolution.
void replace_choices(const std::filesystem::path& run_dir, const std::string& algorithm) {
  auto state = state_in(run_dir);
  for (auto& [op, choice] : state["algorithms"].items()) {
    if (is_of_convolution(op)) choice = algorithm;
  }
  replace_state(run_dir, state);
}

}  // namespace

TEST_CASE("plans that were timed on one GPU are those of all, and of what goes on after a checkpoint") {
  give_gpus(2);
  const TemporaryFolder folder;
  const Variable cache("XDG_CACHE_HOME", (folder / "cache").string());
  const auto timed = folder.path() / "timed";
  train(2, options + Words{"--max-steps=6", "--benchmark"}, timed);
  const auto choices = state_in(timed)["algorithms"];
  CHECK(choices.size() == timed_ops);
  for (const auto& [op, algorithm] : choices.items()) {
    CAPTURE(op);
    CHECK((is_of_convolution(op) || op.find("linear") != std::string::npos));
  }

  const auto again = folder.path() / "again";
  std::filesystem::copy(
      timed, again, std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  const Words further{"--max-steps=12", "--resume=auto"};
  const auto a = train(2, options + further, timed);
  const auto b = train(2, options + further + Words{"--benchmark"}, again);
  CHECK(a["weights_sha256"] == b["weights_sha256"]);
  CHECK(state_in(timed)["algorithms"] == choices);
  CHECK(state_in(again)["algorithms"] == choices);
  train(2, options + Words{"--max-steps=12"}, folder.path() / "untimed");
  check_same_losses(timed, folder.path() / "untimed", 1e-4);
}

TEST_CASE("a plan that is named by a checkpoint is taken if it can be had; else one warning tells") {
  const auto [plan, can_be_built] = GENERATE(
      table<std::string, bool>({{"sim1_direct", true}, {"sim1_direct", false}, {"sim99_gone", true}}));
  const bool taken = plan == "sim1_direct" && can_be_built;
  CAPTURE(plan, can_be_built);
  give_gpus(2);
  const TemporaryFolder folder;
  const Variable cache("XDG_CACHE_HOME", (folder / "cache").string());
  const auto run_dir = folder / "run";
  train(2, options + Words{"--max-steps=6", "--benchmark"}, run_dir);
  replace_choices(run_dir, plan);
  const Variable unbuildable("SIMGPU_DNN_UNBUILDABLE", can_be_built ? "none" : plan);
  Program run(
      trainer_words(2, options + Words{"--max-steps=12", "--resume=auto", "--run-dir", run_dir.string()}));
  CAPTURE(run.output());
  REQUIRE(run.wait_for_end() == 0);
  const std::string warning = "does not offer here";
  const std::size_t first = run.output().find(warning);
  CHECK((first == std::string::npos) == taken);
  if (!taken) CHECK(run.output().find(warning, first + 1) == std::string::npos);
  for (const auto& [op, choice] : state_in(run_dir)["algorithms"].items())
    CHECK((choice == plan || !is_of_convolution(op)));
}

TEST_CASE("a plan that is offered and cannot be built is passed over") {
  give_gpus(1);
  const TemporaryFolder folder;
  const Variable cache("XDG_CACHE_HOME", (folder / "cache").string());
  const Variable unbuildable("SIMGPU_DNN_UNBUILDABLE", "sim1_direct");
  train(1, options + Words{"--max-steps=6", "--benchmark"}, folder / "run");
  for (const auto& choice : state_in(folder / "run")["algorithms"]) CHECK(choice != "sim1_direct");
}

TEST_CASE("an op that a library does not let be captured is timed without a graph") {
  give_gpus(1);
  const TemporaryFolder folder;
  const Variable cache("XDG_CACHE_HOME", (folder / "cache").string());
  const Variable fault("SIMGPU_FAIL_CALL", "cudaStreamBeginCapture@1");
  train(1, options + Words{"--max-steps=2", "--benchmark", "--cuda-graph=off"}, folder / "run");
  CHECK(state_in(folder / "run")["algorithms"].size() == timed_ops);
}

TEST_CASE("each shape of a convolution is built once, however many layers have it") {
  give_gpus(1);
  // 53 convolutions make 158 nodes; their shapes are fewer than half as many.
  const Variable limit("SIMGPU_DNN_BUILDS", "79");
  Program plan(Words{TRAINER_PROGRAM, "plan", "--model=resnet50", "--dataset=synthetic",
                     "--image-shape=3x32x32", "--batch-size=2", "--device=cuda"});
  CAPTURE(plan.output());
  CHECK(plan.wait_for_end() == 0);
}

TEST_CASE("plans that the library compiles are compiled once, and by the next run not at all") {
  give_gpus(1);
  const TemporaryFolder folder;
  const Variable cache("XDG_CACHE_HOME", (folder / "cache").string());
  const Variable compiled("SIMGPU_DNN_COMPILED", "1");
  const auto first = train(1, options + Words{"--max-steps=2"}, folder / "1");
  const auto plans = folder / "cache/lockstep/plans";
  CHECK(std::distance(std::filesystem::directory_iterator(plans), {}) >= 5);
  {
    const Variable none("SIMGPU_DNN_BUILDS", "0");
    CHECK(train(1, options + Words{"--max-steps=2"}, folder / "2")["weights_sha256"] ==
          first["weights_sha256"]);
  }
  for (const auto& file : std::filesystem::directory_iterator(plans))
    write_file(file.path(), "something else");
  CHECK(train(1, options + Words{"--max-steps=2"}, folder / "3")["weights_sha256"] ==
        first["weights_sha256"]);
  const Variable none("SIMGPU_DNN_BUILDS", "0");  // what was damaged is kept anew
  CHECK(train(1, options + Words{"--max-steps=2"}, folder / "4")["weights_sha256"] ==
        first["weights_sha256"]);
}

TEST_CASE("plans that one run has timed are known to the next, which times none") {
  give_gpus(2);
  const TemporaryFolder folder;
  const Variable cache("XDG_CACHE_HOME", (folder / "cache").string());
  const Words timed = options + Words{"--max-steps=6", "--benchmark"};
  CHECK_THAT(output_of(2, timed + Words{"--run-dir", (folder / "1").string()}),
             contains(fmt::format("--benchmark: {} ops timed in ", timed_ops)));
  CHECK_THAT(output_of(2, timed + Words{"--run-dir", (folder / "2").string()}),
             contains("--benchmark: 0 ops timed in "));
  CHECK(state_in(folder / "2")["algorithms"] == state_in(folder / "1")["algorithms"]);
}

TEST_CASE("whether steps are replayed is decided once, and taken by what goes on after a checkpoint") {
  give_gpus(2);
  const TemporaryFolder folder;
  const auto run_dir = folder / "run";
  const Words graphs = options + Words{"--cuda-graph=auto"};
  train(2, graphs + Words{"--max-steps=24"}, run_dir);
  auto state = state_in(run_dir);
  REQUIRE(state["replayed"].is_boolean());
  const bool replayed = GENERATE(false, true);
  state["replayed"] = replayed;
  replace_state(run_dir, state);

  const Variable calls("SIMGPU_CALLS", folder / "calls");
  train(2, graphs + Words{"--max-steps=30", "--resume=auto"}, run_dir);
  CHECK(state_in(run_dir)["replayed"] == replayed);
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (file.path().stem() != "calls") continue;
    ++files;
    CHECK((contents(file.path()).find("cudaGraphLaunch") != std::string::npos) == replayed);
  }
  CHECK(files == 2);
}

}  // namespace lockstep::tests
