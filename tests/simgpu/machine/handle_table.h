#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>

#include "tests/simgpu/machine/failure.h"

namespace simgpu {

/// Gives handles out. No value comes twice, and none can be dereferenced, so a handle that was destroyed
/// stays wrong for ever.
template <class T, class Handle>
class HandleTable {
 public:
  explicit HandleTable(std::uintptr_t kind) : next_((std::uintptr_t{0x7000} | kind) << 48) {}

  Handle add(std::shared_ptr<T> item) {
    next_ += 16;
    items_.emplace(next_, std::move(item));
    return reinterpret_cast<Handle>(next_);
  }

  /// Failure cudaErrorInvalidResourceHandle when there is no such handle (any more).
  const std::shared_ptr<T>& get(Handle handle) const {
    const auto found = items_.find(reinterpret_cast<std::uintptr_t>(handle));
    require(found != items_.end(), cudaErrorInvalidResourceHandle);
    return found->second;
  }

  void remove(Handle handle) { items_.erase(reinterpret_cast<std::uintptr_t>(handle)); }
  const std::map<std::uintptr_t, std::shared_ptr<T>>& items() const { return items_; }

 private:
  std::map<std::uintptr_t, std::shared_ptr<T>> items_;
  std::uintptr_t next_;
};

}  // namespace simgpu
