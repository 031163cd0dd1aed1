#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/simgpu/machine/streams.h"

namespace simgpu {

/// An operation of a graph. Its waits are places in Graph::nodes, all before its own.
struct GraphNode {
  Operation operation;
  NodeInfoPtr info;
  int device;
  int priority;      ///< of the stream that it was captured from
  std::size_t lane;  ///< nodes of one lane run one after the other
  std::vector<std::size_t> waits_for;
};

struct Graph {
  std::vector<GraphNode> nodes;
  std::size_t lanes = 0;
  Origin created;
};

/// A graph in the making.
struct Capture {
  std::uint64_t id = 0;
  std::shared_ptr<Graph> graph;
  StreamPtr origin;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  std::vector<StreamPtr> members;
  bool invalid = false;
};
using CapturePtr = std::shared_ptr<Capture>;

/// All captures in progress, and what CUDA forbids meanwhile (CUDA programming guide, "Creating a graph using
/// stream capture").
class Captures {
 public:
  Captures() = default;
  ~Captures();
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;

  void begin(const StreamPtr& stream, cudaStreamCaptureMode mode, Origin origin);
  /// Failure when the capture was invalidated, belongs elsewhere or has forks that were not joined.
  std::shared_ptr<Graph> end(const StreamPtr& stream);

  void add(Stream& stream, Operation operation, Origin origin);
  void record(Stream& stream, Event& event);
  void wait(const StreamPtr& stream, const Event& event);

  /// For calls that may synchronise or allocate: Failure 900 when a capture that watches this thread is on.
  void refuse_unsafe_call();
  /// For calls that wait for a stream, or ask it: Failure 900 when it is being captured.
  void refuse_wait(const Stream& stream);
  /// For work in the default stream: Failure 906 when it would depend on a captured stream.
  void refuse_implicit(const Stream& stream);
  void refuse_wait_for_device(int device);

 private:
  [[noreturn]] void invalidate(Capture& capture, cudaError_t error);
  void join(const CapturePtr& capture, const StreamPtr& stream);
  void leave(const CapturePtr& capture);

  std::vector<CapturePtr> running_;
  std::uint64_t begun_ = 0;
};

cudaStreamCaptureStatus status_of(const Stream& stream);

/// The calling thread's mode (cudaThreadExchangeStreamCaptureMode).
cudaStreamCaptureMode& thread_capture_mode();

}  // namespace simgpu
