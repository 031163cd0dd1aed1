#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "kernels/layout.h"

namespace lockstep::kernels {

class Stream;

/// Backend tags: every op overloads `prepare` (and where it matters `choose_layouts`) on them.
struct Cpu {};
struct Cuda {};

/// A kernel with its addresses: what a plan walks. Launching allocates nothing.
class BoundKernel {
 public:
  virtual ~BoundKernel() = default;
  virtual void launch(Stream& stream) = 0;
};

/// A prepared kernel: shapes checked, primitive created, algorithm and workspace known; no addresses yet.
class Kernel {
 public:
  virtual ~Kernel() = default;

  /// Scratch memory needed during a launch; shared by all kernels of a plan, 64-byte aligned.
  virtual std::size_t workspace_bytes() const { return 0; }

  /// `args`: device addresses of the inputs, then of the outputs. They must stay valid, as must `workspace`.
  virtual std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const = 0;
};

using KernelPtr = std::unique_ptr<Kernel>;

}  // namespace lockstep::kernels
