#pragma once

#include <cstddef>

#include "tests/simgpu/engine/device_calls.h"

namespace simgpu {

/// A static shared array that is filled anew for each block and has a guard behind it.
template <typename T, std::size_t count>
class SharedArray {
 public:
  using Data = T[count];

  Data& open() {
    use_static_shared(reinterpret_cast<std::byte*>(data_), sizeof(Data), sizeof(guard_));
    return data_;
  }

 private:
  alignas(16) Data data_;
  alignas(8) std::byte guard_[64];
};

}  // namespace simgpu

/// A pointer `name` to the block's dynamic shared memory.
#define DYNAMIC_SHARED(T, name) \
  T* const name = static_cast<T*>(::simgpu::dynamic_shared_memory(::simgpu::Site::here()))

/// __shared__ T name[count], but never with what an earlier block left in it.
#define STATIC_SHARED(T, name, count)                                \
  static thread_local ::simgpu::SharedArray<T, count> name##_shared; \
  T(&name)[count] = name##_shared.open()
