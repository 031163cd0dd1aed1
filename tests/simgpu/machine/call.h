#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <string_view>

#include "tests/simgpu/machine/machine.h"
#include "tests/simgpu/machine/running.h"

namespace simgpu {

/// One CUDA call: its name, the error that SIMGPU_FAIL_CALL makes it return, and where it came from.
struct CallSite {
  std::string_view function;
  cudaError_t on_demand;
  const void* caller;
};

/// Where the function that this is inlined into returns to.
[[gnu::always_inline]] inline const void* caller() {
  return __builtin_return_address(0);
}

/// Counts the call and refuses it inside a callback or after a sticky error. Anything but cudaSuccess: return
/// it.
cudaError_t begin_call(Machine& machine, const CallSite& site);

/// Remembers the error for cudaGetLastError.
cudaError_t end_call(Machine& machine, cudaError_t error);

/// The calling thread's last error.
cudaError_t& last_error();

/// Runs body(machine, lock, origin) as a CUDA call.
template <class Body>
cudaError_t call(const CallSite& site, Body&& body) {
  Machine& m = machine();
  if (const auto error = begin_call(m, site); error != cudaSuccess) return end_call(m, error);
  cudaError_t error = cudaSuccess;
  try {
    Lock lock(m.mutex);
    body(m, lock, Origin{{}, site.caller});
    error = m.sticky_error;
  } catch (const Failure& failure) {
    error = failure.code;
  }
  return end_call(m, error);
}

}  // namespace simgpu
