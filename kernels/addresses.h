#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::kernels {

/// The addresses of a launch, by the names of the op's operands: `a.in(Linear::x)`. Null for an optional
/// operand that is not there.
class Addresses {
 public:
  /// `args`: `inputs` inputs, then the outputs.
  Addresses(std::span<void* const> args, std::size_t inputs, void* workspace)
      : args_(args.begin(), args.end()), inputs_(inputs), workspace_(workspace) {}

  template <class T = float>
  const T* in(std::size_t i) const {
    return i < inputs_ ? static_cast<const T*>(args_[i]) : nullptr;
  }
  template <class T = float>
  T* out(std::size_t i) const {
    return inputs_ + i < args_.size() ? static_cast<T*>(args_[inputs_ + i]) : nullptr;
  }
  template <class T>
  T* workspace() const {
    return static_cast<T*>(workspace_);
  }
  /// Inputs, then outputs.
  std::span<void* const> all() const { return args_; }

 private:
  std::vector<void*> args_;
  std::size_t inputs_;
  void* workspace_;
};

}  // namespace lockstep::kernels
