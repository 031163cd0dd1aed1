#include "tests/simgpu/nccl/buffers.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "tests/simgpu/operation.h"

namespace simgpu::nccl {
namespace {

std::byte* round_up(void* address) {
  constexpr std::uintptr_t alignment = NCCL_WIN_REQUIRED_ALIGNMENT;
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return static_cast<std::byte*>(address) + (alignment - value % alignment) % alignment;
}

}  // namespace

Buffers& Buffers::instance() {
  static Buffers buffers;
  return buffers;
}

void* Buffers::allocate(std::size_t bytes) {
  void* whole = nullptr;
  const cudaError_t error = cudaMalloc(&whole, bytes + NCCL_WIN_REQUIRED_ALIGNMENT);
  require(error == cudaSuccess, ncclUnhandledCudaError,
          fmt::format("ncclMemAlloc of {} bytes: {}", bytes, cudaGetErrorString(error)));
  std::byte* const address = round_up(whole);
  const std::lock_guard lock(mutex_);
  allocations_[address] = {whole, bytes};
  return address;
}

void Buffers::free(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(static_cast<const std::byte*>(address));
  if (found == allocations_.end()) {
    report_mistake("NCCL memory", "ncclMemFree of something that ncclMemAlloc did not give");
  }
  for (const auto& [handle, registration] : registrations_) {
    if (registration.rank->aborted() || allocation_of(registration.address) != found) continue;
    report_mistake("NCCL memory", fmt::format("ncclMemFree of memory that is registered with rank {}: "
                                              "deregister it first",
                                              registration.rank->rank()));
  }
  cudaFree(found->second.from_cuda);
  allocations_.erase(found);
}

std::size_t Buffers::bytes_to_end(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto at = allocation_of(address);
  if (at == allocations_.end()) return 0;
  return static_cast<std::size_t>(at->first + at->second.bytes - static_cast<const std::byte*>(address));
}

Buffers::Allocations::const_iterator Buffers::allocation_of(const void* address) const {
  const auto* const byte = static_cast<const std::byte*>(address);
  const auto after = allocations_.upper_bound(byte);
  if (after == allocations_.begin()) return allocations_.end();
  const auto at = std::prev(after);
  return byte < at->first + at->second.bytes ? at : allocations_.end();
}

void* Buffers::register_for(const CommunicatorPtr& rank, void* address, bool as_window) {
  const std::lock_guard lock(mutex_);
  registrations_[++handles_] = {rank, address, as_window};
  if (as_window) ++rank->windows;
  return reinterpret_cast<void*>(handles_);
}

void Buffers::deregister(const CommunicatorPtr& rank, void* handle, bool as_window) {
  const std::lock_guard lock(mutex_);
  const auto found = registrations_.find(reinterpret_cast<std::uintptr_t>(handle));
  require(found != registrations_.end() && found->second.rank == rank && found->second.is_window == as_window,
          ncclInvalidArgument, "this is not registered with the communicator");
  if (as_window) --rank->windows;
  registrations_.erase(found);
}

}  // namespace simgpu::nccl
