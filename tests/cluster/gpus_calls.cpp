#include <map>
#include <set>
#include <sstream>

#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

using Calls = std::map<std::string, long>;

/// How often the ranks of a run called each function of CUDA, from start to end.
Calls calls_of_run(int ranks, const Words& options) {
  give_gpus(ranks);
  const TemporaryFolder folder;
  const Variable calls("SIMGPU_CALLS", folder / "calls");
  train(ranks, options, folder.path() / "run");
  Calls sum;
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (file.path().stem() != "calls") continue;
    ++files;
    std::istringstream lines(contents(file.path()));
    std::string function;
    for (long count = 0; lines >> function >> count;) sum[function] += count;
  }
  REQUIRE(files == ranks);
  return sum;
}

/// All that a step may call. So it allocates and frees nothing, makes no stream, event or graph, and never
/// waits for the whole device.
const std::set<std::string> calls_of_a_step{
    "convolution",          "cudaEventQuery",        "cudaEventRecord",
    "cudaEventSynchronize", "cudaGetDevice",         "cudaGraphLaunch",
    "cudaLaunchKernel",     "cudaMemcpyAsync",       "cudaMemsetAsync",
    "cudaSetDevice",        "cudaStreamQuery",       "cudaStreamIsCapturing",
    "cudaStreamWaitEvent",  "cudaStreamSynchronize", "gemm",
    "ncclAllReduce"};

}  // namespace

TEST_CASE("a training step on a GPU allocates nothing, makes nothing, and does not stop the device") {
  const int ranks = GENERATE(1, 2);
  const std::string graphs = GENERATE("off", "on");
  CAPTURE(ranks, graphs);
  const Words options =
      small_images + sgd +
      Words{"--model=simplecnn", "--batch-size=8", "--device=cuda", "--cuda-graph=" + graphs};
  const Calls shorter = calls_of_run(ranks, options + Words{"--max-steps=10"});
  const Calls longer = calls_of_run(ranks, options + Words{"--max-steps=20"});
  for (const auto& [function, count] : longer) {
    const auto before = shorter.find(function);
    const long more = count - (before == shorter.end() ? 0 : before->second);
    INFO(function << ": " << more << " calls more in ten steps more");
    CHECK((more <= 0 || calls_of_a_step.count(function) == 1));
  }
  const std::string launches = graphs == "on" ? "cudaGraphLaunch" : "cudaLaunchKernel";
  CHECK(longer.at(launches) >= shorter.at(launches) + 10 * ranks);
  CHECK(longer.at("cudaMalloc") == shorter.at("cudaMalloc"));
}

}  // namespace lockstep::tests
