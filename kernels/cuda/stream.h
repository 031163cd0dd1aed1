#pragma once

#include <functional>
#include <utility>

#include "kernels/cuda/handles.h"
#include "kernels/stream.h"

namespace lockstep::kernels {

/// Makes `device` the one that the calling thread's CUDA calls go to.
inline void make_current(int device) {
  check(cudaSetDevice(device), "cannot choose the GPU");
}

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(EventHandle handle) : handle_(std::move(handle)) {}

  cudaEvent_t handle() const { return handle_.get(); }
  bool reached() override;
  void synchronize() override { check(cudaEventSynchronize(handle()), "cannot wait for an event"); }

 private:
  EventHandle handle_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(int device, StreamHandle handle) : device_(device), handle_(std::move(handle)) {}

  int device() const { return device_; }
  cudaStream_t handle() const { return handle_.get(); }
  void synchronize() override { check(cudaStreamSynchronize(handle()), "cannot wait for a stream"); }
  void record(Event& event) override;
  void wait(Event& event) override;

 private:
  int device_;
  StreamHandle handle_;
};

/// The stream as CUDA knows it. Makes its device the calling thread's, so that what is launched next goes
/// there.
inline cudaStream_t handle_of(Stream& stream) {
  const auto& cuda = static_cast<const CudaStream&>(stream);
  make_current(cuda.device());
  return cuda.handle();
}

inline cudaEvent_t handle_of(Event& event) {
  return static_cast<const CudaEvent&>(event).handle();
}

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
