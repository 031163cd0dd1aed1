#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/conv2d.h"
#include "kernels/cuda/gemm.h"
#include "kernels/kernel.h"
#include "kernels/plan_store.h"

namespace lockstep::kernels {

class BuiltConvolutions;

/// A call of the vendor's library for neural networks with its plan chosen. The same GPU and library give the
/// same bits.
class DnnCall {
 public:
  virtual ~DnnCall() = default;
  virtual std::size_t workspace_bytes() const = 0;
  virtual LibraryPlan plan() const = 0;
  /// `operands`: addresses in the order that the function which prepared the call gives.
  virtual void launch(std::span<void* const> operands, void* workspace, cudaStream_t stream) const = 0;
};

/// A GPU that need not be there: cuDNN (from 9.8 on) plans for it without a driver, as for the current one,
/// but launches nothing. Plans that it compiles at run time are taken without a try.
class DescribedGpu {
 public:
  virtual ~DescribedGpu() = default;
  /// What has been asked about it, kept as long as it is.
  virtual BuiltConvolutions& convolutions() const = 0;
};

/// `json`: as CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION has it. UsageError where the library cannot read it.
std::shared_ptr<const DescribedGpu> describe_gpu(const std::string& json);

/// A 2-d convolution or one of its gradients. Tensors have strides and no blocks; f32, bf16 or f16, all
/// alike.
struct ConvolutionSpec {
  enum class Pass { forward, backward_data, backward_weights };

  Pass pass;
  Conv2dGeometry geometry;
  TensorDesc x, w, y;  ///< or their gradients
  /// In forward alone: what is done to y before it is written. The bias is a vector.
  bool bias = false;
  bool relu = false;
  Precision precision = Precision::ieee;
  std::string plan;  ///< by the library's name for it; empty: the first that its heuristic offers
};

/// For the current device or, if not null, for `gpu`. `kept`, if not null: its plans by name, which save the
/// library compiling. Operands: x, w, [bias], y; dy, w, dx; x, dy, dw. Null if the library has no plan (none
/// of that name) for this with bias or relu; DeviceError if it has none for the bare convolution.
std::shared_ptr<const DnnCall> prepare_convolution(const ConvolutionSpec& spec,
                                                   const DescribedGpu* gpu = nullptr,
                                                   const PlanStore* kept = nullptr);

/// Names of plans for `spec`, whose own is left aside, in the order of the library's heuristic: supported,
/// which is no promise that they can be built; at most `offered_algorithms`, all deterministic, with no more
/// workspace than `most_workspace_bytes`. Empty where `prepare_convolution` gives null.
std::vector<std::string> convolution_plans(const ConvolutionSpec& spec, const DescribedGpu* gpu = nullptr);

/// Of a plan that is timed, and of one that is taken untimed if there is any such: kernels of a step share
/// it.
inline constexpr std::size_t most_workspace_bytes = std::size_t{1} << 30;

/// Whether the library's plans for convolutions on a GPU of this compute capability (89) take channels-last
/// pictures as they are; others transpose them, and the answer is by which plans do. As cuDNN 9.19 answers
/// for A100, H100, H200, B200 and RTX 3090, 4090, 5090: without tensor cores its kernels take row-major
/// pictures, on sm_89 for TF32 too.
constexpr bool prefers_channels_last(DType dtype, Precision precision, int capability) {
  return dtype != DType::f32 || (precision == Precision::tf32 && capability != 89);
}

/// The library behind it with its version, which its bits depend on.
std::string dnn_library();

}  // namespace lockstep::kernels
