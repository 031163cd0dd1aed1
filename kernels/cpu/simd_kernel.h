#pragma once

#include <memory>
#include <span>
#include <utility>

#include "kernels/kernel.h"

namespace lockstep::kernels {

/// A kernel whose launch calls `run(addresses)`.
template <class Run>
class SimdKernel : public Kernel {
 public:
  SimdKernel(std::size_t inputs, Run run, std::size_t workspace)
      : inputs_(inputs), run_(std::move(run)), workspace_(workspace) {}

  std::size_t workspace_bytes() const override { return workspace_; }
  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    return std::make_unique<Bound>(run_, Addresses(args, inputs_, workspace));
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

  std::size_t inputs_;
  Run run_;
  std::size_t workspace_;
};

template <class Run>
KernelPtr simd_kernel(const KernelIo& io, Run run, std::size_t workspace = 0) {
  return std::make_unique<SimdKernel<Run>>(io.inputs.size(), std::move(run), workspace);
}

}  // namespace lockstep::kernels
