// Collectives in CUDA graphs, and on several streams.
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/simgpu/tests/nccl_ranks.h"
#include "tests/support/catch.h"

using namespace simgpu::testing;
using lockstep::tests::contains;

namespace {

constexpr std::size_t count = 70000;

struct Graph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;

  void destroy() {
    check(cudaGraphExecDestroy(exec));
    check(cudaGraphDestroy(graph));
  }
};

void sum(const Rank& own, float* values) {
  own.complete(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, own.comm, own.stream));
}

/// Two sums in a row.
Graph capture_two(const Rank& own, float* values) {
  Graph result;
  check(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal));
  sum(own, values);
  sum(own, values);
  check(cudaStreamEndCapture(own.stream, &result.graph));
  check(cudaGraphInstantiate(&result.exec, result.graph, 0));
  return result;
}

std::vector<Outcome> with_ones(int ranks, const std::function<void(Rank&, float*)>& use) {
  const ncclUniqueId id = fresh_id();
  return run_ranks(ranks, [&](int rank) {
    Rank own(id, rank, ranks);
    use(own, on_device(std::vector<float>(count, 1.0F)));
  });
}

}  // namespace

TEST_CASE("a captured all-reduce sums at each replay, and not before", "[simgpu]") {
  const auto outcomes = with_ones(2, [](Rank& own, float* values) {
    Graph graph = capture_two(own, values);
    check(cudaStreamSynchronize(own.stream));
    require(to_host(values, count) == std::vector<float>(count, 1), "summed in the capture");
    for (int replay = 0; replay < 3; ++replay) check(cudaGraphLaunch(graph.exec, own.stream));
    sum(own, values);
    check(cudaStreamSynchronize(own.stream));
    require(to_host(values, count) == std::vector<float>(count, 128), "seven sums");
    graph.destroy();
    own.close();
  });
  CHECK(complaints(outcomes) == "");
}

TEST_CASE("a communicator does not end before its graphs", "[simgpu]") {
  const bool abort = GENERATE(false, true);
  const auto outcomes = with_ones(1, [&](Rank& own, float* values) {
    capture_two(own, values);
    abort ? ncclCommAbort(own.comm) : ncclCommDestroy(own.comm);
  });
  CHECK(outcomes[0].code == 86);
  CHECK_THAT(outcomes[0].errors, contains("2 of its collectives are in CUDA graphs"));
}

TEST_CASE("ranks capture all of them or none", "[simgpu]") {
  const auto outcomes = with_ones(2, [](Rank& own, float* values) {
    if (own.rank == 0) {
      check(cudaGraphLaunch(capture_two(own, values).exec, own.stream));
    } else {
      sum(own, values);
    }
    cudaStreamSynchronize(own.stream);
  });
  CHECK(outcomes[0].code == 86);
  CHECK_THAT(outcomes[0].errors, contains("ncclAllReduce of 70000 float32 in a graph on rank 0"));
}

TEST_CASE("collectives on two streams run in the order of their calls", "[simgpu]") {
  const auto outcomes = with_ones(2, [](Rank& own, float* values) {
    cudaStream_t other = nullptr;
    check(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    float* const more = on_device(std::vector<float>(10, 1.0F));
    for (int repeat = 0; repeat < 5; ++repeat) {
      sum(own, values);
      own.complete(ncclBroadcast(more, more, 10, ncclFloat32, 1, own.comm, other));
    }
    // Asked for in the other order: the broadcast comes after a sum that nobody has asked for yet.
    check(cudaStreamSynchronize(other));
    check(cudaStreamSynchronize(own.stream));
    require(to_host(values, count) == std::vector<float>(count, 32), "sums");
    own.close();
  });
  CHECK(complaints(outcomes) == "");
}

TEST_CASE("a graph with collectives between hosts is stuck before 2.30.4", "[simgpu]") {
  const std::string version = GENERATE("2.28.9", "2.30.4");
  const ncclUniqueId id = fresh_id();
  const Signal looked[2];
  const auto outcomes = run_ranks(2, [&](int rank) {
    setenv("SIMGPU_NCCL_VERSION", version.c_str(), 1);
    setenv("NCCL_HOSTID", ("host" + std::to_string(rank)).c_str(), 1);
    Rank own(id, rank, 2);
    float* const values = on_device(std::vector<float>(count, 1.0F));
    sum(own, values);
    check(cudaStreamSynchronize(own.stream));
    Graph graph = capture_two(own, values);
    check(cudaGraphLaunch(graph.exec, own.stream));
    if (version == "2.30.4") {
      check(cudaStreamSynchronize(own.stream));
      require(to_host(values, count) == std::vector<float>(count, 8), "three sums");
      graph.destroy();
      return own.close();
    }
    for (int look = 0; look < 50; ++look) {
      require(cudaStreamQuery(own.stream) == cudaErrorNotReady, "it was replayed");
    }
    // A rank that ends is an error on the other's stream.
    looked[rank].send();
    looked[1 - rank].wait();
  });
  CHECK(complaints(outcomes) == "");
}
