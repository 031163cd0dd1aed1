#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/layout.h"

namespace lockstep::kernels {

class DescribedGpu;
class Stream;

namespace onednn {
struct Context;
}

/// Backends: every op overloads `prepare` (and where it matters `choose_layouts`) on them. They carry what
/// the device lends to its kernels; it outlives `prepare`, not the kernel.
struct Cpu {
  const onednn::Context& onednn;
};
struct Cuda {
  int capability = 0;  ///< of the GPU: 89 for 8.9
  /// Planned for in place of the current GPU, and never launched on; may be null.
  const DescribedGpu* described = nullptr;
};

/// A kernel with its addresses: what a plan walks. Launching allocates nothing.
class BoundKernel {
 public:
  virtual ~BoundKernel() = default;
  virtual void launch(Stream& stream) = 0;
};

/// What a kernel leaves to a vendor's library, where the library has more than one way.
struct LibraryPlan {
  std::string name;                ///< as Algorithm has it
  std::vector<std::string> notes;  ///< the library's words for its arithmetic and behaviour, and ours
};

/// A prepared kernel: shapes checked, primitive created, algorithm and workspace known; no addresses yet.
class Kernel {
 public:
  virtual ~Kernel() = default;

  /// Scratch memory needed during a launch; shared by the kernels of one stream of a plan, aligned to
  /// `workspace_alignment`.
  virtual std::size_t workspace_bytes() const { return 0; }

  virtual std::optional<LibraryPlan> library_plan() const { return std::nullopt; }

  /// `args`: device addresses of the inputs, then of the outputs. They must stay valid, as must `workspace`.
  virtual std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const = 0;
};

using KernelPtr = std::unique_ptr<Kernel>;

/// The addresses of a launch, by the names of the op's operands: `a.in(Linear::x)`. Null for an optional
/// operand that is left out.
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
