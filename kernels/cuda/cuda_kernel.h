#pragma once

#include <utility>

#include "kernels/addresses.h"
#include "kernels/cuda/stream.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {

/// A kernel whose launch calls `run(addresses, stream)`, which enqueues and returns.
template <class Run>
class CudaKernel : public Kernel {
 public:
  CudaKernel(Run run, std::size_t workspace) : run_(std::move(run)), workspace_(workspace) {}

  std::size_t workspace_bytes() const override { return workspace_; }
  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    return std::make_unique<Bound>(run_, Addresses(args, workspace));
  }

 private:
  class Bound : public BoundKernel {
   public:
    Bound(Run run, Addresses addresses) : run_(std::move(run)), addresses_(std::move(addresses)) {}
    void launch(Stream& stream) override { run_(addresses_, handle_of(stream)); }

   private:
    Run run_;
    Addresses addresses_;
  };

  Run run_;
  std::size_t workspace_;
};

template <class Run>
KernelPtr cuda_kernel(Run run, std::size_t workspace = 0) {
  return std::make_unique<CudaKernel<Run>>(std::move(run), workspace);
}

}  // namespace lockstep::kernels
