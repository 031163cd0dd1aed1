#include "tests/simgpu/machine/call.h"

#include <string>

#include "tests/simgpu/machine/host_faults.h"

namespace simgpu {

cudaError_t begin_call(Machine& m, const CallSite& site) {
  const Node* node = running().node;
  if (node && node->operation.kind == Operation::Kind::host_call) {
    report_mistake("CUDA call in a callback", node->info->describe() + " calls " +
                                                  std::string(site.function) +
                                                  "; let it wake a thread that makes the call");
  }
  catch_host_faults();
  if (m.faults.count(site.function)) return site.on_demand;
  if (m.settings.devices == 0) return cudaErrorNoDevice;
  const std::lock_guard lock(m.mutex);
  return m.sticky_error;
}

cudaError_t end_call(Machine& m, cudaError_t error) {
  if (error == cudaSuccess) return error;
  last_error() = error;
  if (is_sticky(error)) {
    const std::lock_guard lock(m.mutex);
    m.sticky_error = error;
  }
  return error;
}

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

}  // namespace simgpu
