// Stream capture and graphs.

#include <algorithm>

#include "tests/simgpu/machine/call.h"

using namespace simgpu;

namespace {

void instantiate(Machine& m, cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags,
                 const Origin& origin) {
  m.captures.refuse_unsafe_call();
  require(exec != nullptr, cudaErrorInvalidValue);
  *exec = m.graph_execs.add(std::make_shared<GraphExec>(m.graphs.get(graph), m.scheduler, origin, flags));
}

/// Nodes have no handles of their own: their number, counted from 1.
cudaGraphNode_t node_handle(std::size_t index) {
  return reinterpret_cast<cudaGraphNode_t>(index + 1);
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call({__func__, cudaErrorStreamCaptureUnsupported, caller()},
              [&](Machine& m, Lock&, const Origin& origin) {
                m.captures.begin(m.streams.get(stream), mode, origin);
              });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* pGraph) {
  return call({__func__, cudaErrorStreamCaptureInvalidated, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(pGraph != nullptr, cudaErrorInvalidValue);
    *pGraph = nullptr;
    *pGraph = m.graphs.add(m.captures.end(m.streams.get(stream)));
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(pCaptureStatus != nullptr, cudaErrorInvalidValue);
    const StreamPtr asked = m.streams.get(stream);
    m.captures.refuse_implicit(*asked);
    *pCaptureStatus = status_of(*asked);
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out,
                                     unsigned long long* id_out, cudaGraph_t* graph_out,
                                     const cudaGraphNode_t** dependencies_out,
                                     const cudaGraphEdgeData** edgeData_out,
                                     std::size_t* numDependencies_out) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(captureStatus_out != nullptr, cudaErrorInvalidValue);
    // Graphs in the making have no handle here.
    require(!graph_out && !dependencies_out && !edgeData_out && !numDependencies_out, cudaErrorNotSupported);
    const StreamPtr asked = m.streams.get(stream);
    m.captures.refuse_implicit(*asked);
    *captureStatus_out = status_of(*asked);
    if (id_out && asked->capture) *id_out = asked->capture->id;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine&, Lock&, const Origin&) {
    require(mode != nullptr, cudaErrorInvalidValue);
    std::swap(*mode, thread_capture_mode());
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph, unsigned long long flags) {
  return call({__func__, cudaErrorMemoryAllocation, caller()}, [&](Machine& m, Lock&, const Origin& origin) {
    instantiate(m, pGraphExec, graph, flags, origin);
  });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return call({__func__, cudaErrorMemoryAllocation, caller()}, [&](Machine& m, Lock&, const Origin& origin) {
    instantiate(m, pGraphExec, graph, flags, origin);
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return call({__func__, cudaErrorMemoryAllocation, caller()}, [&](Machine& m, Lock&, const Origin&) {
    m.graph_execs.get(graphExec);
    require(!m.streams.get(stream)->capture, cudaErrorStreamCaptureUnsupported);
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return call(
      {__func__, cudaErrorLaunchFailure, caller()}, [&](Machine& m, Lock& lock, const Origin& origin) {
        const std::shared_ptr<GraphExec> exec = m.graph_execs.get(graphExec);
        const StreamPtr into = m.streams.get(stream);
        require(!into->capture, cudaErrorStreamCaptureUnsupported);  // graphs in graphs are not simulated
        m.captures.refuse_implicit(*into);
        exec->launch(lock, m.streams, *into, origin);
      });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  return call({__func__, cudaErrorInvalidResourceHandle, caller()}, [&](Machine& m, Lock&, const Origin&) {
    m.graph_execs.get(graphExec);
    m.graph_execs.remove(graphExec);
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call({__func__, cudaErrorInvalidResourceHandle, caller()}, [&](Machine& m, Lock&, const Origin&) {
    m.graphs.get(graph);
    m.graphs.remove(graph);
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* numNodes) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(numNodes != nullptr, cudaErrorInvalidValue);
    const std::size_t count = m.graphs.get(graph)->nodes.size();
    for (std::size_t i = 0; nodes && i < *numNodes; ++i) nodes[i] = i < count ? node_handle(i) : nullptr;
    *numNodes = nodes ? std::min(*numNodes, count) : count;
  });
}
