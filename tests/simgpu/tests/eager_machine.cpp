// A machine of one thread with in-order streams that run when they are asked: as much as NCCL's tests need.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>

#include "tests/simgpu/operation.h"

namespace {

struct Machine {
  int device = 0;
  std::map<const std::byte*, std::size_t> allocations;
  std::map<cudaStream_t, std::deque<simgpu::Operation>> streams;
  std::uintptr_t made = 0;
};

Machine& machine() {
  static Machine one;
  return one;
}

}  // namespace

namespace simgpu {

cudaError_t enqueue(cudaStream_t stream, Operation operation) {
  machine().streams[stream].push_back(std::move(operation));
  return cudaSuccess;
}
std::byte* host_view(const void* device) {
  return static_cast<std::byte*>(const_cast<void*>(device));
}
bool is_device_address(const void* address) {
  const auto* const byte = static_cast<const std::byte*>(address);
  auto after = machine().allocations.upper_bound(byte);
  if (after == machine().allocations.begin()) return false;
  --after;
  return byte < after->first + after->second;
}
int current_device() {
  return machine().device;
}
void register_range(const void*, std::size_t) {}
void report_mistake(std::string_view kind, const std::string& text) {
  std::fprintf(stderr, "simgpu: %s: %s\n", std::string(kind).c_str(), text.c_str());
  std::_Exit(86);
}

}  // namespace simgpu

cudaError_t cudaMalloc(void** address, size_t bytes) {
  *address = std::calloc(bytes, 1);
  machine().allocations[static_cast<std::byte*>(*address)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  machine().allocations.erase(static_cast<std::byte*>(address));
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  machine().device = device;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = reinterpret_cast<cudaStream_t>(++machine().made);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  for (auto& [key, operations] : machine().streams) {
    while (!operations.empty() && operations.front().run()) operations.pop_front();
  }
  return machine().streams[stream].empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  while (cudaStreamQuery(stream) == cudaErrorNotReady) {
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  for (const auto& [stream, operations] : machine().streams) cudaStreamSynchronize(stream);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error";
}
