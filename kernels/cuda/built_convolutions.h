#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/dnn.h"

namespace lockstep::kernels {

/// The convolutions of a device, each description's plans asked for and built once: a network has many more
/// layers than shapes, every plan of a run (full batch, remainder, evaluation) prepares them anew, and one
/// that the library compiles takes it a second. Get it by `shared_by_device`; the device keeps it.
class BuiltConvolutions {
 public:
  /// Of the current device or, if not null, of `gpu`.
  explicit BuiltConvolutions(const DescribedGpu* gpu = nullptr) : gpu_(gpu) {}

  /// Of this device, `machine`, plans that the library compiles are looked for in `store` and kept there.
  void keep_in(std::shared_ptr<const PlanStore> store, std::string machine);

  /// As `prepare_convolution`. From any thread.
  std::shared_ptr<const DnnCall> prepare(const ConvolutionSpec& spec);
  /// As `convolution_plans`.
  std::vector<std::string> plans(const ConvolutionSpec& spec);

 private:
  const DescribedGpu* gpu_;
  std::mutex mutex_;
  std::shared_ptr<const PlanStore> store_;
  std::string machine_;
  std::map<std::string, std::shared_ptr<const DnnCall>> built_;
  std::map<std::string, std::vector<std::string>> offered_;
};

}  // namespace lockstep::kernels
