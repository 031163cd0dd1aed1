#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <tuple>

#include "kernels/cuda/dnn.h"
#include "kernels/cuda/gemm.h"

namespace lockstep::kernels {

/// Whether a NaN comes through the ReLU in which the vendors' products and convolutions end. They do not say
/// (cuBLASLt's is "x := max(x, 0)"), and a ReLU that makes 0 of it hides that a run diverges. Asked of the
/// device with a small product, once for each kind. Get it by `shared_by_device`; the device keeps it.
class FusedRelu {
 public:
  bool keeps_nan(const GemmSpec& spec);
  bool keeps_nan(const ConvolutionSpec& spec);

 private:
  /// Convolution or not, with bias or not, channels-last or not, in which types and precision.
  using Kind = std::tuple<bool, bool, bool, DType, DType, Precision>;
  bool known(const Kind& kind, const std::function<bool()>& ask);

  std::mutex mutex_;
  std::map<Kind, bool> known_;
};

}  // namespace lockstep::kernels
