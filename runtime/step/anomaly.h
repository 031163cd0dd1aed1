#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "runtime/plan/plan.h"
#include "runtime/step/memory.h"

namespace lockstep::runtime {

/// --detect-anomaly: reads what each kernel has written, and finds the first value that is not finite. Slow:
/// everything is copied to the host. Passed over is what sound steps may have: the logsumexp of attention,
/// which is infinite where a query may look at no key, and in fp16 all gradients, from the loss's own to the
/// norm. They carry a loss scale: where it is too great they become infinite, and then NaN (infinity times
/// zero), and GradScaler skips the update. Forward and updates have no scale: they are always looked at.
class AnomalyDetector {
 public:
  AnomalyDetector(kernels::Device& device, const ReplicaMemory& memory) : device_(device), memory_(memory) {}

  /// `kernel` is bound for that step of `plan`, on batch slot `slot`.
  void add(const kernels::BoundKernel& kernel, const Plan& plan, const Step& step, std::size_t slot);

  /// Waits for the kernel's end on `stream`. What is not finite, such as "nan at element 7 of output 0
  /// (forward)"; empty if nothing is.
  std::string examine(const kernels::BoundKernel& kernel, kernels::Stream& stream);

 private:
  struct Output {
    std::size_t index = 0;
    const void* data = nullptr;
    DType dtype = DType::f32;
    std::size_t bytes = 0;  ///< the padding of a blocked layout, which is zero, included
    std::string phase;      ///< " (forward)", " (backward)", or nothing for what is no node
  };

  kernels::Device& device_;
  const ReplicaMemory& memory_;
  std::map<const kernels::BoundKernel*, std::vector<Output>> outputs_;
  std::vector<std::byte> copied_;
};

}  // namespace lockstep::runtime
