#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "runtime/plan/plan.h"

namespace lockstep::bench {

/// What part of the limit's speed a convolution or product must reach.
inline constexpr double least_share = 0.9;

/// A convolution or product that a kernel computes, once or some times, and that oneDNN itself has.
struct Comparison {
  std::string what;  ///< "forward 16x64x56x56 * 64x64x3x3"
  DType dtype = DType::f32;
  int count = 1;  ///< in a launch
  double flops = 0;
  std::function<double()> ours, onednn;  ///< measure the seconds of one, alone

  /// Equal for equal work.
  std::string key() const;
};
using Comparisons = std::vector<Comparison>;

/// Those of a node of the plan; none in most.
using Compare = Comparisons(const model::Op&, const kernels::KernelIo&, kernels::Device&);
Compare convolutions_of, products_of;

/// One distinct comparison of a training step, measured.
struct ComparedRow {
  std::string layer;  ///< the first that has it
  std::string what;
  std::string dtype;
  int count = 0;  ///< in a step
  double flops = 0;
  double ours_ms = 0;
  double onednn_ms = 0;  ///< infinite where it has none

  double limit_ms() const { return ours_ms < onednn_ms ? ours_ms : onednn_ms; }
  double share() const { return limit_ms() / ours_ms; }
  bool is_slow() const { return share() < least_share; }
};

/// Of the plan that trains in f32, then of mixed precision.
struct ComparisonTable {
  std::string title;  ///< "convolutions"
  std::string workload;
  int threads = 1;
  std::vector<ComparedRow> rows;

  std::size_t slow() const;
  nlohmann::json json() const;
  void print() const;
};

/// In f32 and in bf16, or in one of them.
ComparisonTable measure(const std::string& title, Compare* compare, const std::string& workload,
                        std::optional<bool> bf16, int threads);

/// Seconds of the op's own kernel, alone.
double seconds_of_kernel(const model::Op& op, const kernels::KernelIo& io, kernels::Device& device);

}  // namespace lockstep::bench
