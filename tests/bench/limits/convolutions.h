#pragma once

#include <string>
#include <vector>

#include "kernels/device.h"

namespace lockstep::bench {

/// One distinct convolution of a model's training step, alone.
struct ConvolutionRow {
  std::string layer;  ///< the first that has it
  std::string what;   ///< "forward 16x64x56x56 * 64x64x3x3"
  std::string dtype;
  int count = 1;       ///< in a step
  double ours_ms = 0;  ///< of the kernel that the plan takes
  double onednn_ms = 0;

  double limit_ms() const { return ours_ms < onednn_ms ? ours_ms : onednn_ms; }
};

/// Names of the models that can be measured.
std::vector<std::string> convolution_models();

/// Of a model at the size of its row in tests/bench/compare; in mixed precision if `bf16`.
std::vector<ConvolutionRow> measure_convolutions(const std::string& model, bool bf16,
                                                 kernels::Device& device);

/// What part of the limit's speed a convolution must reach.
inline constexpr double least_share = 0.9;

}  // namespace lockstep::bench
