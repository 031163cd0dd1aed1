#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <iterator>

#include "tests/simgpu/machine/machine.h"
#include "tests/simgpu/tests/machine_support.h"
#include "tests/support/catch.h"

namespace simgpu::test {
namespace {

using lockstep::tests::contains;

Policy policy() {
  return machine().settings.policy;
}

Operation collective(std::function<bool()> step) {
  return {Operation::Kind::collective, "all-reduce", {}, std::move(step)};
}

}  // namespace

TEST_CASE("lazy work is not done until the host waits for it") {
  const FreshMachine fresh;
  float landing = 0;
  ok(cudaHostRegister(&landing, sizeof landing, cudaHostRegisterDefault));
  float* value = make_floats(1);
  set_floats(value, {7});
  const cudaStream_t stream = make_stream();
  ok(cudaMemcpyAsync(&landing, value, sizeof landing, cudaMemcpyDeviceToHost, stream));
  if (policy() == Policy::eager) CHECK(landing == 7);
  if (policy() == Policy::lazy) CHECK(landing == 0);
  ok(cudaStreamSynchronize(stream));
  CHECK(landing == 7);
}

TEST_CASE("a wait runs what it needs, and lazily nothing else") {
  const FreshMachine fresh;
  const cudaStream_t first = make_stream();
  const cudaStream_t second = make_stream();
  float* value = make_floats(2);
  set_floats(value, {0, 0});
  bool done = false;
  ok(enqueue(second, {Operation::Kind::library, "other", {}, [&] { return done = true; }}));
  ok(launch_add(first, value, 1, 1));
  ok(cudaStreamSynchronize(first));
  if (policy() == Policy::lazy) CHECK_FALSE(done);
  ok(cudaDeviceSynchronize());
  CHECK(done);
}

TEST_CASE("a random order keeps each stream's own") {
  const FreshMachine fresh;
  std::vector<int> order;
  const cudaStream_t streams[] = {make_stream(), make_stream()};
  for (int i = 0; i < 20; ++i) {
    ok(enqueue(streams[i % 2], {Operation::Kind::library, "step", {}, [&order, i] {
                                  order.push_back(i);
                                  return true;
                                }}));
  }
  ok(cudaDeviceSynchronize());
  REQUIRE(order.size() == 20);
  for (const int parity : {0, 1}) {
    std::vector<int> own;
    std::copy_if(order.begin(), order.end(), std::back_inserter(own), [&](int i) { return i % 2 == parity; });
    CHECK(std::is_sorted(own.begin(), own.end()));
  }
  if (policy() == Policy::random) CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("collectives make progress while the host waits elsewhere") {
  const FreshMachine fresh;
  const cudaStream_t stream = make_stream();
  float* value = make_floats(1);
  set_floats(value, {0});
  for (int i = 0; i < 3; ++i) {
    std::promise<void> reached;
    int asked = 0;
    ok(launch_add(stream, value, 1, 1));
    ok(enqueue(stream, collective([&] {
                 if (++asked < 3) return false;
                 reached.set_value();
                 return true;
               })));
    const bool came = reached.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    ok(cudaStreamSynchronize(stream));
    REQUIRE(came);  // without a CUDA call of the host
    CHECK(asked == 3);
  }
}

TEST_CASE("a wait for a collective runs its peer in another stream of the process") {
  const FreshMachine fresh;
  const cudaStream_t first = make_stream();
  const cudaStream_t second = make_stream();
  std::atomic<bool> peer_came = false;
  ok(enqueue(first, collective([&] { return peer_came.load(); })));
  ok(enqueue(second, {Operation::Kind::library, "peer", {}, [&] { return peer_came = true; }}));
  ok(cudaStreamSynchronize(first));
  CHECK(peer_came);
}

TEST_CASE("work behind a collective waits, work in other streams does not") {
  const FreshMachine fresh;
  const cudaStream_t blocked = make_stream();
  const cudaStream_t free = make_stream();
  std::atomic<bool> open = false;
  bool behind = false;
  ok(enqueue(blocked, collective([&] { return open.load(); })));
  ok(enqueue(blocked, {Operation::Kind::library, "behind", {}, [&] { return behind = true; }}));
  ok(enqueue(free, {Operation::Kind::library, "beside", {}, [] { return true; }}));
  ok(cudaStreamSynchronize(free));
  CHECK(cudaStreamQuery(blocked) == cudaErrorNotReady);
  CHECK_FALSE(behind);
  open = true;
  ok(cudaStreamSynchronize(blocked));
  CHECK(behind);
}

TEST_CASE("a host that only asks gets there") {
  const FreshMachine fresh;
  const cudaStream_t stream = make_stream();
  float* value = make_floats(1);
  set_floats(value, {0});
  for (int i = 0; i < 5; ++i) ok(launch_add(stream, value, 1, 1));
  while (cudaStreamQuery(stream) == cudaErrorNotReady) CHECK(cudaGetLastError() == cudaErrorNotReady);
  CHECK(read_floats(value, 1)[0] == 5);
}

TEST_CASE("a callback runs after the work before it, and the host may wait for what it does") {
  const FreshMachine fresh;
  const cudaStream_t stream = make_stream();
  float* pinned = make_pinned(1);
  float* value = make_floats(1);
  set_floats(value, {3});
  struct Call {
    std::promise<float> seen;
    float* pinned;
  } call{{}, pinned};
  ok(cudaMemcpyAsync(pinned, value, sizeof(float), cudaMemcpyDeviceToHost, stream));
  const auto callback = [](void* data) {
    auto& c = *static_cast<Call*>(data);
    c.seen.set_value(*c.pinned);
  };
  ok(cudaLaunchHostFunc(stream, callback, &call));
  CHECK(call.seen.get_future().get() == 3);
  ok(cudaStreamSynchronize(stream));
}

TEST_CASE("a callback that calls CUDA is told") {
  const auto program = [](cudaHostFn_t callback) {
    return end_of_process([callback] {
      cudaLaunchHostFunc(nullptr, callback, nullptr);
      cudaDeviceSynchronize();
    });
  };
  CHECK(program([](void*) {}) == "0 ");
  CHECK_THAT(program([](void*) { cudaDeviceSynchronize(); }),
             contains("86 simgpu: CUDA call in a callback: cudaLaunchHostFunc on the default stream"));
}

TEST_CASE("times come from a clock of the machine's own") {
  const FreshMachine fresh;
  const cudaStream_t stream = make_stream();
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  ok(cudaEventCreate(&start));
  ok(cudaEventCreate(&end));
  float milliseconds = 0;
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorInvalidResourceHandle);
  float* values = make_floats(1000);
  ok(cudaEventRecord(start, stream));
  ok(cudaMemsetAsync(values, 0, 4000, stream));
  ok(cudaMemsetAsync(values, 0, 4000, stream));
  ok(cudaEventRecord(end, stream));
  ok(cudaEventSynchronize(end));
  ok(cudaEventElapsedTime(&milliseconds, start, end));
  CHECK(milliseconds == Approx(0.004008));
}

TEST_CASE("a stream or event that was destroyed is refused, its work goes on") {
  const FreshMachine fresh;
  const cudaStream_t stream = make_stream();
  float* value = make_floats(1);
  set_floats(value, {0});
  ok(launch_add(stream, value, 1, 1));
  ok(cudaStreamDestroy(stream));
  CHECK(launch_add(stream, value, 1, 1) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  CHECK(read_floats(value, 1)[0] == 1);
  const cudaEvent_t event = make_event();
  ok(cudaEventDestroy(event));
  CHECK(cudaEventRecord(event, nullptr) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("kernels run on the device of their stream, which must be the current one") {
  const FreshMachine fresh([](Settings& settings) { settings.devices = 2; });
  const cudaStream_t stream = make_stream();
  int seen = -1;
  ok(cudaSetDevice(1));
  const auto launch = [&] {
    return enqueue(stream, {Operation::Kind::kernel, "where", {}, [&] {
                              seen = current_device();
                              return true;
                            }});
  };
  CHECK(launch() == cudaErrorInvalidResourceHandle);
  ok(cudaSetDevice(0));
  CHECK(launch() == cudaSuccess);
  ok(cudaSetDevice(1));
  ok(cudaStreamSynchronize(stream));
  CHECK(seen == 0);
  CHECK(current_device() == 1);
}

TEST_CASE("a graph keeps its streams' priorities only if it is told to") {
  const bool differ = GENERATE(false, true);
  const FreshMachine fresh([](Settings& settings) { settings.policy = Policy::lazy; });
  const cudaStream_t stream = make_stream();
  cudaStream_t urgent = nullptr;
  ok(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, differ ? -5 : 0));
  std::vector<std::string> order;
  const auto note = [&](cudaStream_t where, const std::string& name) {
    ok(enqueue(where, {Operation::Kind::fill, name, {}, [&order, name] {
                         order.push_back(name);
                         return true;
                       }}));
  };
  const cudaEvent_t fork = make_event();
  const cudaEvent_t join = make_event();
  ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  note(stream, "first");
  ok(cudaEventRecord(fork, stream));
  ok(cudaStreamWaitEvent(urgent, fork, 0));
  note(stream, "compute");
  note(urgent, "exchange");
  ok(cudaEventRecord(join, urgent));
  ok(cudaStreamWaitEvent(stream, join, 0));
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(stream, &graph));

  cudaGraphExec_t exec = nullptr;
  CHECK(mistake_in([&] { cudaGraphInstantiate(&exec, graph, 0); }) == (differ ? "lost priorities" : "none"));
  ok(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagUseNodePriority));
  ok(cudaGraphLaunch(exec, stream));
  ok(cudaStreamSynchronize(stream));
  const std::string second = differ ? "exchange" : "compute";
  CHECK(order == std::vector<std::string>{"first", second, differ ? "compute" : "exchange"});
}

}  // namespace simgpu::test
