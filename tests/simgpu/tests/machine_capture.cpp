#include <future>

#include "tests/simgpu/tests/machine_support.h"
#include "tests/support/catch.h"

namespace simgpu::test {
namespace {

using lockstep::tests::contains;

constexpr std::size_t count = 16;

struct Capturing {
  FreshMachine fresh;
  cudaStream_t stream = make_stream();
  cudaStream_t side = make_stream();
  cudaEvent_t fork = make_event();
  cudaEvent_t join = make_event();
  float* values = make_floats(count);
  float* others = make_floats(count);

  Capturing() {
    ok(cudaMemset(values, 0, count * sizeof(float)));
    ok(cudaMemset(others, 0, count * sizeof(float)));
    ok(cudaDeviceSynchronize());
  }

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) const {
    ok(cudaStreamBeginCapture(stream, mode));
  }

  cudaError_t end() const {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream, &graph);
    CHECK((graph != nullptr) == (error == cudaSuccess));
    return error;
  }

  cudaGraphExec_t end_and_instantiate() const {
    cudaGraph_t graph = nullptr;
    ok(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec = nullptr;
    ok(cudaGraphInstantiate(&exec, graph, 0));
    ok(cudaGraphDestroy(graph));
    return exec;
  }

  void fork_to_side() const {
    ok(cudaEventRecord(fork, stream));
    ok(cudaStreamWaitEvent(side, fork, 0));
  }

  void join_side() const {
    ok(cudaEventRecord(join, side));
    ok(cudaStreamWaitEvent(stream, join, 0));
  }
};

cudaStreamCaptureStatus status_of(cudaStream_t stream) {
  auto status = cudaStreamCaptureStatusNone;
  ok(cudaStreamIsCapturing(stream, &status));
  return status;
}

}  // namespace

TEST_CASE("what is captured runs at each launch, with the arguments of the capture") {
  const Capturing c;
  c.begin();
  float summand = 1;
  ok(launch_add(c.stream, c.values, count, summand));
  summand = 100;
  ok(launch_add(c.stream, c.values, count, 2));
  CHECK(status_of(c.stream) == cudaStreamCaptureStatusActive);
  const cudaGraphExec_t exec = c.end_and_instantiate();
  CHECK(status_of(c.stream) == cudaStreamCaptureStatusNone);
  CHECK(read_floats(c.values, count) == std::vector<float>(count, 0));
  for (int i = 0; i < 3; ++i) ok(cudaGraphLaunch(exec, c.stream));
  CHECK(read_floats(c.values, count) == std::vector<float>(count, 9));
  ok(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphLaunch(exec, c.stream) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("a fork that is joined becomes a part of the graph") {
  const Capturing c;
  c.begin();
  ok(launch_add(c.stream, c.values, count, 1));
  c.fork_to_side();
  CHECK(status_of(c.side) == cudaStreamCaptureStatusActive);
  ok(launch_copy(c.side, c.others, c.values, count));
  c.join_side();
  ok(launch_add(c.stream, c.others, count, 10));
  const cudaGraphExec_t exec = c.end_and_instantiate();
  ok(cudaGraphLaunch(exec, c.stream));
  ok(cudaGraphLaunch(exec, c.side));  // launches of one graph follow each other in any stream
  CHECK(read_floats(c.others, count) == std::vector<float>(count, 12));
}

TEST_CASE("an unjoined fork invalidates the capture") {
  const Capturing c;
  c.begin();
  c.fork_to_side();
  ok(launch_add(c.side, c.values, count, 1));
  CHECK(c.end() == cudaErrorStreamCaptureUnjoined);
  CHECK(status_of(c.side) == cudaStreamCaptureStatusNone);
}

TEST_CASE("work on a side stream after the join is unjoined again") {
  const Capturing c;
  c.begin();
  c.fork_to_side();
  c.join_side();
  ok(launch_add(c.side, c.values, count, 1));
  CHECK(c.end() == cudaErrorStreamCaptureUnjoined);
}

TEST_CASE("a missing event inside a graph is told at its launch") {
  const Capturing c;
  const auto run = [&](bool ordered) {
    c.begin();
    if (!ordered) c.fork_to_side();
    ok(launch_add(c.stream, c.values, count, 1, "writer"));
    if (ordered) c.fork_to_side();
    ok(launch_copy(c.side, c.others, c.values, count, "reader"));
    c.join_side();
    const cudaGraphExec_t exec = c.end_and_instantiate();
    return whole_mistake_in([&] {
      cudaGraphLaunch(exec, c.stream);
      cudaGraphLaunch(exec, c.stream);
    });
  };
  CHECK(run(true).kind == "none");
  ok(cudaDeviceSynchronize());
  const Mistake mistake = run(false);
  CHECK(mistake.kind == "missing event");
  CHECK_THAT(mistake.text, contains("writer on a graph's part from stream 1"));
}

TEST_CASE("a graph is ordered against other streams like any work") {
  const Capturing c;
  c.begin();
  ok(launch_add(c.stream, c.values, count, 1));
  const cudaGraphExec_t exec = c.end_and_instantiate();
  CHECK(mistake_in([&] {
          ok(cudaGraphLaunch(exec, c.stream));
          ok(cudaEventRecord(c.fork, c.stream));
          ok(cudaStreamWaitEvent(c.side, c.fork, 0));
          launch_add(c.side, c.values, count, 1);
        }) == "none");
  CHECK(mistake_in([&] { cudaGraphLaunch(exec, c.stream); }) == "missing event");
}

TEST_CASE("memory that a graph uses must live when it is launched") {
  const Capturing c;
  c.begin();
  ok(launch_add(c.stream, c.values, count, 1));
  const cudaGraphExec_t exec = c.end_and_instantiate();
  CHECK(mistake_in([&] { cudaGraphLaunch(exec, c.stream); }) == "none");
  ok(cudaStreamSynchronize(c.stream));
  ok(cudaFree(c.values));
  CHECK(mistake_in([&] { cudaGraphLaunch(exec, c.stream); }) == "use after free");
}

TEST_CASE("calls that wait or allocate are illegal in a capture and invalidate it") {
  using Call = std::function<cudaError_t(const Capturing&)>;
  const auto [name, call] = GENERATE(table<std::string, Call>(
      {{"stream", [](const Capturing& c) { return cudaStreamSynchronize(c.stream); }},
       {"query", [](const Capturing& c) { return cudaStreamQuery(c.stream); }},
       {"device", [](const Capturing&) { return cudaDeviceSynchronize(); }},
       {"malloc",
        [](const Capturing&) {
          void* pointer = nullptr;
          return cudaMalloc(&pointer, 4);
        }},
       {"pageable",
        [](const Capturing& c) {
          float host = 0;
          return cudaMemcpyAsync(c.values, &host, 4, cudaMemcpyDefault, c.stream);
        }},
       {"free", [](const Capturing& c) { return cudaFree(c.others); }}}));
  INFO(name);
  const Capturing c;
  c.begin();
  ok(launch_add(c.stream, c.values, count, 1));
  CHECK(call(c) == cudaErrorStreamCaptureUnsupported);
  CHECK(status_of(c.stream) == cudaStreamCaptureStatusInvalidated);
  CHECK(launch_add(c.stream, c.values, count, 1) == cudaErrorStreamCaptureInvalidated);
  CHECK(c.end() == cudaErrorStreamCaptureInvalidated);
  CHECK(call(c) == cudaSuccess);
}

TEST_CASE("a capture of one thread leaves other threads alone, a global one does not") {
  const Capturing c;
  const auto allocate_elsewhere = [] {
    return std::async(std::launch::async,
                      [] {
                        void* pointer = nullptr;
                        return cudaMalloc(&pointer, 4);
                      })
        .get();
  };
  c.begin(cudaStreamCaptureModeThreadLocal);
  CHECK(allocate_elsewhere() == cudaSuccess);
  CHECK(c.end() == cudaSuccess);
  c.begin(cudaStreamCaptureModeGlobal);
  CHECK(allocate_elsewhere() == cudaErrorStreamCaptureUnsupported);
  CHECK(c.end() == cudaErrorStreamCaptureInvalidated);
  c.begin(cudaStreamCaptureModeRelaxed);
  CHECK(allocate_elsewhere() == cudaSuccess);
  CHECK(c.end() == cudaSuccess);
}

TEST_CASE("a capture ends on the stream and the thread that began it") {
  const Capturing c;
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(c.stream, &graph) == cudaErrorIllegalState);
  c.begin();
  CHECK(cudaStreamBeginCapture(c.stream, cudaStreamCaptureModeRelaxed) == cudaErrorIllegalState);
  c.fork_to_side();
  CHECK(cudaStreamEndCapture(c.side, &graph) == cudaErrorStreamCaptureUnmatched);
  const auto elsewhere = [&] { return cudaStreamEndCapture(c.stream, &graph); };
  CHECK(std::async(std::launch::async, elsewhere).get() == cudaErrorStreamCaptureWrongThread);
  c.join_side();
  CHECK(c.end() == cudaSuccess);
}

TEST_CASE("events do not cross the border of a capture") {
  const Capturing c;
  const cudaEvent_t before = make_event();
  ok(cudaEventRecord(before, c.side));
  c.begin();
  CHECK(cudaStreamWaitEvent(c.stream, before, 0) == cudaErrorStreamCaptureIsolation);
  CHECK(c.end() == cudaErrorStreamCaptureInvalidated);
  c.begin();
  ok(cudaEventRecord(c.fork, c.stream));
  CHECK(cudaEventSynchronize(c.fork) == cudaErrorCapturedEvent);
  CHECK(c.end() == cudaErrorStreamCaptureInvalidated);
  c.begin();
  ok(cudaEventRecord(c.fork, c.stream));
  CHECK(c.end() == cudaSuccess);
  CHECK(cudaStreamWaitEvent(c.side, c.fork, 0) == cudaErrorCapturedEvent);
}

TEST_CASE("two captures do not merge") {
  const Capturing c;
  c.begin();
  ok(cudaStreamBeginCapture(c.side, cudaStreamCaptureModeThreadLocal));
  ok(cudaEventRecord(c.fork, c.side));
  CHECK(cudaStreamWaitEvent(c.stream, c.fork, 0) == cudaErrorStreamCaptureMerge);
  CHECK(c.end() == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("the default stream is not captured, nor used while a blocking stream is") {
  const Capturing c;
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal) ==
        cudaErrorStreamCaptureUnsupported);
  c.begin();
  CHECK(launch_add(nullptr, c.others, count, 1) == cudaSuccess);
  CHECK(c.end() == cudaSuccess);
  const cudaStream_t blocking = make_stream(cudaStreamDefault);
  ok(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal));
  CHECK(launch_add(nullptr, c.others, count, 1) == cudaErrorStreamCaptureImplicit);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(blocking, &graph) == cudaErrorStreamCaptureInvalidated);
}

}  // namespace simgpu::test
