#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::kernels {

/// The addresses of a launch: inputs, then outputs.
class Addresses {
 public:
  Addresses(std::span<void* const> args, void* workspace)
      : args_(args.begin(), args.end()), workspace_(workspace) {}

  template <class T = float>
  T* at(std::size_t i) const {
    return i < args_.size() ? static_cast<T*>(args_[i]) : nullptr;
  }
  template <class T>
  T* workspace() const {
    return static_cast<T*>(workspace_);
  }

 private:
  std::vector<void*> args_;
  void* workspace_;
};

}  // namespace lockstep::kernels
