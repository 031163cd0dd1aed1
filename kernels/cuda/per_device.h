#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "kernels/cuda/handles.h"

namespace lockstep::kernels {

/// A library's handle for the current device: made at first, shared by those who hold it, freed with the last
/// of them. (A handle that outlived them would be freed after main, when the driver may be gone.)
template <class Handle>
std::shared_ptr<Handle> shared_by_device() {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Handle>> handles;
  int device = 0;
  check(cudaGetDevice(&device), "cannot tell the current device");
  const std::lock_guard lock(mutex);
  std::shared_ptr<Handle> handle = handles[device].lock();
  if (!handle) handles[device] = handle = std::make_shared<Handle>();
  return handle;
}

}  // namespace lockstep::kernels
