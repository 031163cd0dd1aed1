#pragma once

#include "kernels/cuda/cuda_kernel.h"

namespace lockstep::kernels {

/// A kernel that also is a `Mark`, which tells plans something of it.
template <class Mark, class Run>
class MarkedKernel final : public CudaKernel<Run, NoBindHook>, public Mark {
 public:
  using CudaKernel<Run, NoBindHook>::CudaKernel;
};

/// As `cuda_kernel`.
template <class Mark, class Run>
KernelPtr marked_kernel(const KernelIo& io, Run run, std::size_t workspace = 0) {
  return std::make_unique<MarkedKernel<Mark, Run>>(io.inputs.size(), std::move(run), workspace, NoBindHook{});
}

}  // namespace lockstep::kernels
