#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "tests/simgpu/nccl/library.h"

namespace simgpu::nccl {

/// This process's memory from ncclMemAlloc, and what is registered with communicators.
class Buffers {
 public:
  static Buffers& instance();

  void* allocate(std::size_t bytes);
  void free(void* address);
  /// From the address to the end of what ncclMemAlloc gave there; 0: it gave nothing.
  std::size_t bytes_to_end(const void* address);

  void* register_for(const CommunicatorPtr& rank, void* address, bool as_window);
  void deregister(const CommunicatorPtr& rank, void* handle, bool as_window);

 private:
  struct Allocation {
    void* from_cuda;
    std::size_t bytes;
  };
  struct Registration {
    CommunicatorPtr rank;
    void* address;
    bool is_window;
  };

  using Allocations = std::map<const std::byte*, Allocation>;

  /// The end of the map where the address lies in none.
  Allocations::const_iterator allocation_of(const void* address) const;

  std::mutex mutex_;
  Allocations allocations_;
  std::map<std::uintptr_t, Registration> registrations_;
  std::uintptr_t handles_ = 0;
};

}  // namespace simgpu::nccl
