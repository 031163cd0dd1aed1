#pragma once

#include <memory>
#include <span>
#include <utility>

#include "kernels/kernel.h"

namespace lockstep::kernels {

/// A kernel whose launch calls `run(addresses)`, which computes on the rank's team.
template <class Run>
class CpuKernel : public Kernel {
 public:
  CpuKernel(std::size_t inputs, Run run, std::size_t workspace)
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
KernelPtr cpu_kernel(const KernelIo& io, Run run, std::size_t workspace = 0) {
  return std::make_unique<CpuKernel<Run>>(io.inputs.size(), std::move(run), workspace);
}

}  // namespace lockstep::kernels
