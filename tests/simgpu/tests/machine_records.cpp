#include <algorithm>
#include <atomic>
#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/simgpu/machine/machine.h"
#include "tests/simgpu/tests/machine_support.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace simgpu::test {
namespace {

using lockstep::tests::contains;
using lockstep::tests::contents;
using lockstep::tests::TemporaryFolder;

struct Entry {
  nlohmann::json enqueued;
  int started = 0;  ///< line, counted from 1; 0: not there
  int ended = 0;
};

/// By name; several of one name get "name", "name 2", …
std::map<std::string, Entry> read_trace(const std::string& path) {
  std::istringstream lines(contents(path));
  std::map<int, Entry> operations;
  int number = 0;
  for (std::string text; std::getline(lines, text);) {
    ++number;
    const auto line = nlohmann::json::parse(text);
    Entry& entry = operations[line["operation"]];
    if (line["event"] == "enqueue") entry.enqueued = line;
    if (line["event"] == "start") entry.started = number;
    if (line["event"] == "end") entry.ended = number;
  }
  std::map<std::string, Entry> named;
  for (const auto& [operation, entry] : operations) {
    const std::string name = entry.enqueued["name"];
    int nth = 1;
    while (named.count(nth == 1 ? name : name + " " + std::to_string(nth)) > 0) ++nth;
    named[nth == 1 ? name : name + " " + std::to_string(nth)] = entry;
  }
  return named;
}

bool waits_for(const Entry& later, const Entry& earlier) {
  const auto& after = later.enqueued["after"];
  return std::find(after.begin(), after.end(), earlier.enqueued["operation"]) != after.end();
}

struct Tracing {
  TemporaryFolder folder;
  std::string path = folder / "trace";
  FreshMachine fresh{[this](Settings& settings) { settings.trace = path; }};
};

}  // namespace

TEST_CASE("the trace tells when operations start and end, and what they wait for") {
  const Tracing tracing;
  const cudaStream_t first = make_stream();
  const cudaStream_t second = make_stream();
  const cudaEvent_t event = make_event();
  float* values = make_floats(1);
  ok(launch_add(first, values, 1, 1, "before"));
  ok(cudaEventRecord(event, first));
  ok(cudaStreamWaitEvent(second, event, 0));
  ok(launch_add(second, values, 1, 1, "behind"));
  ok(launch_add(first, make_floats(1), 1, 1, "beside"));
  ok(cudaDeviceSynchronize());

  auto trace = read_trace(tracing.path);
  CHECK(trace["before"].enqueued["kind"] == "kernel");
  CHECK(trace["before"].enqueued["stream"] == "stream 1");
  CHECK(trace["before"].enqueued["device"] == 0);
  CHECK_THAT(trace["before"].enqueued["from"].get<std::string>(), contains("test_simgpu_machine+0x"));
  CHECK(trace["cudaEventRecord"].enqueued["kind"] == "mark");
  CHECK(trace["behind"].enqueued["stream"] == "stream 2");
  for (const auto& [name, entry] : trace) {
    CHECK(entry.started > 0);
    CHECK(entry.started < entry.ended);
  }
  CHECK(waits_for(trace["cudaEventRecord"], trace["before"]));
  CHECK(waits_for(trace["cudaStreamWaitEvent"], trace["cudaEventRecord"]));
  CHECK(waits_for(trace["behind"], trace["cudaStreamWaitEvent"]));
  CHECK_FALSE(waits_for(trace["beside"], trace["behind"]));
  CHECK(trace["before"].ended < trace["behind"].started);
}

TEST_CASE("a collective starts when it first looks for its peers, and others run meanwhile") {
  const Tracing tracing;
  const cudaStream_t exchange = make_stream();
  const cudaStream_t compute = make_stream();
  float* values = make_floats(1);
  std::atomic<bool> peer_is_here = false;
  ok(enqueue(exchange, {Operation::Kind::collective, "sum", {}, [&] { return peer_is_here.load(); }}));
  REQUIRE(cudaStreamQuery(exchange) == cudaErrorNotReady);
  ok(launch_add(compute, values, 1, 1, "work"));
  ok(cudaStreamSynchronize(compute));
  peer_is_here = true;
  ok(cudaStreamSynchronize(exchange));
  auto trace = read_trace(tracing.path);
  CHECK(trace["sum"].enqueued["kind"] == "collective");
  CHECK(trace["sum"].started < trace["work"].started);
  CHECK(trace["work"].ended < trace["sum"].ended);
}

TEST_CASE("each launch of a graph is in the trace, with the order inside of it") {
  const Tracing tracing;
  const cudaStream_t stream = make_stream();
  float* values = make_floats(1);
  ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  ok(launch_add(stream, values, 1, 1, "one"));
  ok(launch_add(stream, values, 1, 1, "two"));
  cudaGraph_t graph = nullptr;
  ok(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = nullptr;
  ok(cudaGraphInstantiate(&exec, graph, 0));
  for (int launch = 0; launch < 2; ++launch) ok(cudaGraphLaunch(exec, stream));
  ok(cudaStreamSynchronize(stream));
  auto trace = read_trace(tracing.path);
  CHECK(waits_for(trace["two"], trace["one"]));
  CHECK(waits_for(trace["two 2"], trace["one 2"]));
  CHECK(trace["one 2"].enqueued["stream"] == "a graph's part from stream 1");
  CHECK(trace["two"].ended < trace["one 2"].started);
  CHECK(trace.count("one 3") == 0);
}

TEST_CASE("a process writes how often it called each function") {
  const TemporaryFolder folder;
  const FreshMachine fresh([&](Settings& settings) { settings.calls = folder / "calls"; });
  for (int i = 0; i < 3; ++i) make_stream();
  make_floats(1);
  machine().write_calls();
  CHECK_THAT(contents(folder / "calls"), contains("cudaMalloc 1\ncudaStreamCreateWithFlags 3\n"));
}

}  // namespace simgpu::test
