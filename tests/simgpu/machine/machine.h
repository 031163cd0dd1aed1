#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "tests/simgpu/machine/capture.h"
#include "tests/simgpu/machine/faults.h"
#include "tests/simgpu/machine/graph_exec.h"
#include "tests/simgpu/machine/memory.h"
#include "tests/simgpu/machine/scheduler.h"
#include "tests/simgpu/machine/settings.h"
#include "tests/simgpu/machine/streams.h"

namespace simgpu {

/// All devices of this process and what the program under test made on them. The members are used with the
/// lock held, but for Memory's views and the counter of calls.
struct Machine {
  explicit Machine(const Settings& settings);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Appends to the stream, or to the graph that is captured from it.
  void enqueue(Lock& lock, const StreamPtr& stream, Operation operation, Origin origin);

  /// The run of it that the settings name leaves a sticky error, which whoever calls CUDA next gets.
  void let_fail(Operation& operation);

  /// Mistake "leaked handle" when the program left something behind.
  void report_leaks() const;
  /// To settings.calls: "cudaMalloc 12", a line for each function that was called.
  void write_calls() const;

  const Settings settings;
  std::mutex mutex;
  cudaError_t sticky_error = cudaSuccess;
  Faults faults;
  Memory memory;
  Scheduler scheduler;
  Streams streams;
  HandleTable<Event, cudaEvent_t> events;
  Captures captures;
  HandleTable<Graph, cudaGraph_t> graphs;
  HandleTable<GraphExec, cudaGraphExec_t> graph_execs;
  std::map<const void*, int> dynamic_shared_bytes;  ///< that kernels were granted (cudaFuncSetAttribute)
};

/// The process's machine, made at the first call with the settings of the environment.
Machine& machine();

/// Throws the machine away with all that is on it and starts another: for tests, with no CUDA call in
/// progress.
void restart_machine(const Settings& settings);

}  // namespace simgpu
