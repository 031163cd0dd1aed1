#include "kernels/cuda/stream.h"

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::kernels {
namespace {

struct DestroyGraph {
  void operator()(CUgraph_st* graph) const noexcept { cudaGraphDestroy(graph); }
};
using GraphHandle = std::unique_ptr<CUgraph_st, DestroyGraph>;

/// A capture that is given up must still be ended, or the stream stays unusable. The error that this gives is
/// nobody's: it is not to be left for the next library that asks for the last one.
void give_up_capture(cudaStream_t stream) noexcept {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  cudaGetLastError();
  const GraphHandle owner(graph);
}

GraphHandle end_capture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  const cudaError_t result = cudaStreamEndCapture(stream, &graph);
  if (result == cudaSuccess) return GraphHandle(graph);
  give_up_capture(stream);
  throw_cuda_error(result, "cannot capture a step as a graph (try --cuda-graph off)");
}

}  // namespace

bool CudaEvent::reached() {
  const cudaError_t result = cudaEventQuery(handle());
  if (result == cudaErrorNotReady) {
    cudaGetLastError();  // a library that asks for the last error would take this one for its own
    return false;
  }
  check(result, "cannot ask for an event");
  return true;
}

void CudaStream::record(Event& event) {
  check(cudaEventRecord(handle_of(event), handle_of(*this)), "cannot record an event");
}

void CudaStream::wait(Event& event) {
  check(cudaStreamWaitEvent(handle_of(*this), handle_of(event), 0), "cannot wait for an event");
}

CudaGraph::CudaGraph(CudaStream& stream, const std::function<void()>& launches) {
  const cudaStream_t handle = handle_of(stream);
  // Other threads, such as loaders, may go on allocating and copying.
  check(cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal),
        "cannot begin to capture a step (try --cuda-graph off)");
  try {
    launches();
  } catch (const DeviceError& error) {
    give_up_capture(handle);
    // What works in a stream may not work in a capture.
    throw DeviceError(
        fmt::format("cuda: while a step was captured as a graph (try --cuda-graph off): {}", error.what()));
  } catch (...) {
    give_up_capture(handle);
    throw;
  }
  const GraphHandle graph = end_capture(handle);
  cudaGraphExec_t executable = nullptr;
  // Else all nodes would have the priority of the stream that launches it, and an exchange none before the
  // kernels that it overlaps.
  check(cudaGraphInstantiate(&executable, graph.get(), cudaGraphInstantiateFlagUseNodePriority),
        "cannot make a graph of a step; try --cuda-graph off");
  executable_.reset(executable);
  check(cudaGraphUpload(executable, handle), "cannot upload the graph of a step; try --cuda-graph off");
}

void CudaGraph::launch(Stream& stream) {
  check(cudaGraphLaunch(executable_.get(), handle_of(stream)), "cannot launch the graph of a step");
}

}  // namespace lockstep::kernels
