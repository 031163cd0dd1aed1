#pragma once

#include <utility>
#include <vector>

#include "kernels/kernel.h"

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

/// A kernel whose launch calls `run(addresses)`.
template <class Run>
class LoopKernel : public Kernel {
 public:
  LoopKernel(Run run, std::size_t workspace) : run_(std::move(run)), workspace_(workspace) {}

  std::size_t workspace_bytes() const override { return workspace_; }
  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    return std::make_unique<Bound>(run_, Addresses(args, workspace));
  }

 private:
  class Bound : public BoundKernel {
   public:
    Bound(Run run, Addresses addresses) : run_(std::move(run)), addresses_(std::move(addresses)) {}
    void launch(Stream&) override { run_(addresses_); }

   private:
    Run run_;
    Addresses addresses_;
  };

  Run run_;
  std::size_t workspace_;
};

template <class Run>
KernelPtr loop_kernel(Run run, std::size_t workspace = 0) {
  return std::make_unique<LoopKernel<Run>>(std::move(run), workspace);
}

}  // namespace lockstep::kernels
