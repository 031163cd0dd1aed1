// cudaMalloc and its family, pinned and registered memory, what is known of a pointer.

#include <exception>

#include "tests/simgpu/machine/call.h"
#include "tests/simgpu/machine/release.h"

using namespace simgpu;

namespace {

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}
void* pointer_to(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

void allocate(Machine& m, Block::Kind kind, void** pointer, std::size_t bytes, unsigned flags,
              const Origin& origin) {
  m.captures.refuse_unsafe_call();
  require(pointer != nullptr, cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return;
  const Block* block = m.memory.allocate(kind, bytes, running().device, flags, origin);
  require(block != nullptr, cudaErrorMemoryAllocation);
  *pointer = pointer_to(block->begin);
}

void free_on_host(Lock& lock, Machine& m, Block::Kind kind, void* pointer, const Origin& origin,
                  std::string_view function) {
  m.captures.refuse_unsafe_call();
  if (!pointer) return;
  Block& block = block_to_free(m, address_of(pointer), kind, origin, function);
  m.scheduler.finish_uses(lock, block, origin, std::uncaught_exceptions() > 0);
  block.freed_by = origin.text();
  m.scheduler.forget(block);
  m.memory.release(block);
}

}  // namespace

cudaError_t cudaMalloc(void** devPtr, std::size_t size) {
  return call({__func__, cudaErrorMemoryAllocation, caller()}, [&](Machine& m, Lock&, const Origin& origin) {
    allocate(m, Block::Kind::device, devPtr, size, 0, origin);
  });
}

cudaError_t cudaFree(void* devPtr) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock& lock, const Origin& origin) {
    free_on_host(lock, m, Block::Kind::device, devPtr, origin, "cudaFree");
  });
}

cudaError_t cudaMallocHost(void** ptr, std::size_t size) {
  return call({__func__, cudaErrorMemoryAllocation, caller()}, [&](Machine& m, Lock&, const Origin& origin) {
    allocate(m, Block::Kind::pinned, ptr, size, cudaHostAllocDefault, origin);
  });
}

cudaError_t cudaHostAlloc(void** pHost, std::size_t size, unsigned int flags) {
  return call({__func__, cudaErrorMemoryAllocation, caller()}, [&](Machine& m, Lock&, const Origin& origin) {
    constexpr auto known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    require((flags & ~static_cast<unsigned>(known)) == 0, cudaErrorInvalidValue);
    allocate(m, Block::Kind::pinned, pHost, size, flags, origin);
  });
}

cudaError_t cudaFreeHost(void* ptr) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock& lock, const Origin& origin) {
    free_on_host(lock, m, Block::Kind::pinned, ptr, origin, "cudaFreeHost");
  });
}

cudaError_t cudaHostRegister(void* ptr, std::size_t size, unsigned int flags) {
  return call({__func__, cudaErrorMemoryAllocation, caller()}, [&](Machine& m, Lock&, const Origin& origin) {
    m.captures.refuse_unsafe_call();
    const auto begin = address_of(ptr);
    require(ptr != nullptr && size > 0 && !m.memory.is_device(begin), cudaErrorInvalidValue);
    require(!m.memory.overlaps(begin, begin + size), cudaErrorHostMemoryAlreadyRegistered);
    m.memory.register_host(begin, size, running().device, flags, origin);
  });
}

cudaError_t cudaHostUnregister(void* ptr) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock& lock, const Origin& origin) {
    const Block* block = m.memory.find(address_of(ptr));
    const bool registered =
        block && block->kind == Block::Kind::registered && block->begin == address_of(ptr);
    require(registered, cudaErrorHostMemoryNotRegistered);
    free_on_host(lock, m, Block::Kind::registered, ptr, origin, "cudaHostUnregister");
  });
}

cudaError_t cudaHostGetDevicePointer(void** pDevice, void* pHost, unsigned int flags) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock&, const Origin&) {
    const Block* block = m.memory.find(address_of(pHost));
    const bool pinned = block && block->kind != Block::Kind::device;
    require(pinned && pDevice != nullptr && flags == 0, cudaErrorInvalidValue);
    *pDevice = pHost;
  });
}

cudaError_t cudaMallocAsync(void** devPtr, std::size_t size, cudaStream_t hStream) {
  return call({__func__, cudaErrorMemoryAllocation, caller()},
              [&](Machine& m, Lock& lock, const Origin& origin) {
                require(devPtr != nullptr, cudaErrorInvalidValue);
                *devPtr = nullptr;
                if (size == 0) return;
                allocate_in_order(m, lock, devPtr, size, hStream, origin);
              });
}

cudaError_t cudaFreeAsync(void* devPtr, cudaStream_t hStream) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock& lock, const Origin& origin) {
    if (devPtr) free_in_order(m, lock, address_of(devPtr), hStream, origin);
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(free != nullptr && total != nullptr, cudaErrorInvalidValue);
    *total = m.memory.capacity();
    *free = *total - m.memory.used(running().device);
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* ptr) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(attributes != nullptr, cudaErrorInvalidValue);
    void* pointer = const_cast<void*>(ptr);
    const Block* block = m.memory.find(address_of(ptr));
    *attributes = {};
    if (!block || address_of(ptr) == block->end()) {
      require(!m.memory.is_device(address_of(ptr)), cudaErrorInvalidValue);
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = cudaInvalidDeviceId;
      attributes->hostPointer = pointer;
      return;
    }
    const bool device = block->kind == Block::Kind::device;
    attributes->type = device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    attributes->device = block->device;
    attributes->devicePointer = pointer;
    attributes->hostPointer = device ? nullptr : pointer;
  });
}
