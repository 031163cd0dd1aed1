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

/// Calls of ten steps more, all ranks together, by function.
Calls calls_of_ten_steps(int ranks, const Words& options) {
  const Calls shorter = calls_of_run(ranks, options + Words{"--max-steps=10"});
  Calls more = calls_of_run(ranks, options + Words{"--max-steps=20"});
  for (const auto& [function, count] : shorter) more[function] -= count;
  return more;
}

}  // namespace

TEST_CASE("NCCL takes the network that --interface names, unless its own variable names one") {
  const Words options =
      small_images + sgd + Words{"--model=mlp", "--batch-size=8", "--device=cuda", "--max-steps=1"};
  const std::string interface = GENERATE("lo", "127.0.0.1");
  CHECK(calls_of_run(2, options + Words{"--interface=" + interface})["NCCL_SOCKET_IFNAME=lo"] == 2);
  CHECK(calls_of_run(2, options)["NCCL_SOCKET_IFNAME=lo"] == 0);
  const Variable own("NCCL_SOCKET_IFNAME", "=other");
  Calls told = calls_of_run(2, options + Words{"--interface=" + interface});
  CHECK(told["NCCL_SOCKET_IFNAME=lo"] == 0);
  CHECK(told["NCCL_SOCKET_IFNAME=other"] == 2);
}

TEST_CASE("a replayed step is one launch of a graph and one event") {
  const int ranks = GENERATE(1, 2);
  const std::string model = GENERATE("mlp", "simplecnn");
  CAPTURE(ranks, model);
  Calls more = calls_of_ten_steps(
      ranks,
      small_images + sgd + Words{"--model=" + model, "--batch-size=8", "--device=cuda", "--cuda-graph=on"});
  CHECK(more["cudaGraphLaunch"] == 10 * ranks);
  CHECK(more["cudaEventRecord"] == 10 * ranks);
  CHECK(more["cudaLaunchKernel"] == 0);
  CHECK(more["cudaStreamWaitEvent"] == 0);
  CHECK(more["cudaMemcpyAsync"] == 2 * 10 * ranks);  // a batch: its input and its targets
}

TEST_CASE("a training step on a GPU allocates nothing, makes nothing, and does not stop the device") {
  const int ranks = GENERATE(1, 2);
  const std::string graphs = GENERATE("off", "on");
  CAPTURE(ranks, graphs);
  const Words options =
      small_images + sgd +
      Words{"--model=simplecnn", "--batch-size=8", "--device=cuda", "--cuda-graph=" + graphs};
  const Calls more = calls_of_ten_steps(ranks, options);
  for (const auto& [function, count] : more) {
    INFO(function << ": " << count << " calls more in ten steps more");
    CHECK((count <= 0 || calls_of_a_step.count(function) == 1));
  }
  CHECK(more.at(graphs == "on" ? "cudaGraphLaunch" : "cudaLaunchKernel") >= 10 * ranks);
  CHECK(more.at("cudaMalloc") == 0);
}

TEST_CASE("a checkpoint takes no memory of the GPU, though filters lie otherwise in files") {
  const Words options =
      images_in_buckets + sgd + Words{"--model=convnet", "--batch-size=8", "--device=cuda", "--max-steps=3"};
  const long without = calls_of_run(1, options)["cudaMalloc"];
  CHECK(calls_of_run(1, options + Words{"--checkpoint-every=1"})["cudaMalloc"] == without);
}

}  // namespace lockstep::tests
