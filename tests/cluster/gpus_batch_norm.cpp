#include <algorithm>
#include <map>
#include <utility>

#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

/// Micro-batches of 24 samples over all ranks.
const Words synced = small_images + sgd +
                     Words{"--plugin=" NORMED_PLUGIN, "--model=normed",       "--sync-bn",    "--device=cuda",
                           "--global-batch=48",       "--accumulate-steps=2", "--max-steps=8"};

TEST_CASE("--sync-bn on GPUs: ranks train as one, walked and in graphs, by NCCL and through the host") {
  give_gpus(2);
  const TemporaryFolder folder;
  train(1, synced, folder.path() / "alone");
  const auto walked = train(2, synced + Words{"--cuda-graph=off"}, folder.path() / "walked");
  const auto graphs = train(2, synced + Words{"--cuda-graph=on"}, folder.path() / "graphs");
  const auto host = train(2, synced + Words{"--backend=host"}, folder.path() / "host");
  CHECK(walked["backend"] == "nccl");
  CHECK(graphs["weights_sha256"] == walked["weights_sha256"]);
  for (const char* run : {"walked", "host"}) {
    INFO(run);
    check_same_losses(folder.path() / run, folder.path() / "alone", 1e-4);  // sums of f32 in another order
  }
}

/// By stream of the rank that wrote `trace`: kernels that count where it is.
std::map<std::string, int> counts_of(const std::filesystem::path& trace) {
  std::map<std::string, int> counts;
  std::ifstream file(trace);
  for (std::string text; std::getline(file, text);) {
    const auto line = nlohmann::json::parse(text);
    if (line["event"] == "enqueue" &&
        line["from"].get<std::string>().find("counter.cu") != std::string::npos) {
      ++counts[line["stream"].get<std::string>()];
    }
  }
  return counts;
}

TEST_CASE("with --sync-bn each wait for an exchange by NCCL is timed, not the step's last alone") {
  give_gpus(2);
  const TemporaryFolder folder;
  const Variable trace("SIMGPU_TRACE", folder / "trace");
  train(2,
        small_images + sgd +
            Words{"--plugin=" NORMED_PLUGIN, "--model=normed", "--sync-bn", "--device=cuda", "--batch-size=8",
                  "--max-steps=1", "--cuda-graph=off"},
        folder.path() / "run");
  int traces = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (file.path().stem() != "trace") continue;
    ++traces;
    const auto counts = counts_of(file.path());
    REQUIRE(counts.size() == 2);  // around exchanges there are more, of gradients too
    constexpr int statistics = 2 * 3;
    CHECK(std::ranges::min_element(counts, {}, &std::pair<const std::string, int>::second)->second ==
          2 * (statistics + 1));
  }
  CHECK(traces == 2);
}

}  // namespace
}  // namespace lockstep::tests
