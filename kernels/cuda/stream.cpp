#include "kernels/cuda/stream.h"

namespace lockstep::kernels {
namespace {

struct DestroyGraph {
  void operator()(CUgraph_st* graph) const noexcept { cudaGraphDestroy(graph); }
};
using GraphHandle = std::unique_ptr<CUgraph_st, DestroyGraph>;

GraphHandle end_capture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "cannot capture a step as a graph; try --cuda-graph off");
  return GraphHandle(graph);
}

/// A capture that is given up must still be ended, or the stream stays unusable.
void give_up_capture(cudaStream_t stream) noexcept {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  const GraphHandle owner(graph);
}

}  // namespace

bool CudaEvent::reached() {
  const cudaError_t result = cudaEventQuery(handle());
  if (result == cudaErrorNotReady) return false;
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
  check(cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal), "cannot begin to capture a step");
  try {
    launches();
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
  check(cudaGraphUpload(executable, handle), "cannot upload the graph of a step");
}

void CudaGraph::launch(Stream& stream) {
  check(cudaGraphLaunch(executable_.get(), handle_of(stream)), "cannot launch the graph of a step");
}

}  // namespace lockstep::kernels
