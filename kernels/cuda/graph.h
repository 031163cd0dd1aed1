#pragma once

#include <functional>

#include "kernels/cuda/stream.h"

namespace lockstep::kernels {

/// What `launches` enqueues on `stream`, recorded by stream capture.
class CudaGraph final : public CapturedGraph {
 public:
  CudaGraph(CudaStream& stream, const std::function<void()>& launches);

  void launch(Stream& stream) override;

 private:
  struct Destroy {
    void operator()(CUgraphExec_st* graph) const noexcept { cudaGraphExecDestroy(graph); }
  };
  std::unique_ptr<CUgraphExec_st, Destroy> executable_;
};

}  // namespace lockstep::kernels
