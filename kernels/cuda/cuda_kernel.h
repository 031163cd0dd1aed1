#pragma once

#include <utility>

#include "kernels/cuda/stream.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {

/// Nothing more to do when a kernel is bound.
struct NoBindHook {
  void operator()(const Addresses&) const {}
};

/// A kernel whose launch calls `run(addresses, stream)`, which enqueues and returns;
/// `hook(addresses)` is called once when it is bound.
template <class Run, class Hook>
class CudaKernel : public Kernel {
 public:
  CudaKernel(std::size_t inputs, Run run, std::size_t workspace, Hook hook)
      : inputs_(inputs), run_(std::move(run)), workspace_(workspace), hook_(std::move(hook)) {}

  std::size_t workspace_bytes() const override { return workspace_; }
  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    Addresses addresses(args, inputs_, workspace);
    hook_(addresses);
    return std::make_unique<Bound>(run_, std::move(addresses));
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

  std::size_t inputs_;
  Run run_;
  std::size_t workspace_;
  Hook hook_;
};

template <class Run, class Hook = NoBindHook>
KernelPtr cuda_kernel(const KernelIo& io, Run run, std::size_t workspace = 0, Hook hook = {}) {
  return std::make_unique<CudaKernel<Run, Hook>>(io.inputs.size(), std::move(run), workspace,
                                                 std::move(hook));
}

}  // namespace lockstep::kernels
