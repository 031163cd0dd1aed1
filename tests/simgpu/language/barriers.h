#pragma once

#include "tests/simgpu/engine/device_calls.h"

// The default argument is evaluated where the call stands, which is how a barrier knows its line.
inline void __syncthreads(simgpu::Site site = simgpu::Site::here()) {
  simgpu::block_barrier({"__syncthreads", site});
}
inline int __syncthreads_count(int predicate, simgpu::Site site = simgpu::Site::here()) {
  return simgpu::block_sum({"__syncthreads_count", site}, predicate != 0);
}
inline int __syncthreads_or(int predicate, simgpu::Site site = simgpu::Site::here()) {
  return simgpu::block_sum({"__syncthreads_or", site}, predicate != 0) != 0;
}
inline int __syncthreads_and(int predicate, simgpu::Site site = simgpu::Site::here()) {
  return simgpu::block_sum({"__syncthreads_and", site}, predicate == 0) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, simgpu::Site site = simgpu::Site::here()) {
  simgpu::warp_barrier({"__syncwarp", site}, mask);
}

inline void __threadfence() {
  simgpu::memory_fence();
}
inline void __threadfence_block() {
  simgpu::memory_fence();
}
inline void __threadfence_system() {
  simgpu::memory_fence();
}
inline void __nanosleep(unsigned /*nanoseconds*/) {
  simgpu::yield_thread();
}
[[noreturn]] inline void __trap(simgpu::Site site = simgpu::Site::here()) {
  simgpu::trap({"__trap", site});
}
