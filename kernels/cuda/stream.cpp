#include "kernels/cuda/stream.h"

namespace lockstep::kernels {

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

}  // namespace lockstep::kernels
