#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace lockstep::vendor {

/// What the library answers for one convolution on one GPU.
struct Answer {
  std::string layout;
  std::string plan;  ///< engine and settings, as the library calls them
  std::vector<std::string> notes;
  std::size_t workspace_bytes = 0;

  std::string engine() const { return plan.substr(0, plan.find('_')); }
  bool has(const std::string& note) const;
};

/// How products and convolutions are computed: `--amp`, `--matmul-precision` and `--conv-precision`.
struct Arithmetic {
  std::string name;
  std::string amp;
  std::string matmul_precision;
  std::string conv_precision;
};
inline const std::vector<Arithmetic> arithmetics{{"ieee", "off", "highest", "ieee"},
                                                 {"tf32", "off", "high", "tf32"},
                                                 {"bf16", "bf16", "highest", "ieee"},
                                                 {"fp16", "fp16", "highest", "ieee"}};

/// By what is computed: op, attributes, tensors, arithmetic.
using Answers = std::map<std::string, Answer>;

/// Adds those for the convolutions of a training step and an evaluation of `model`. Throws what planning
/// does.
void ask_for_model(const kernels::Device& device, const std::string& model, const Arithmetic& arithmetic,
                   Answers& answers);

/// Adds those for the shapes of the unit tests of convolutions, in all directions, with bias and relu and
/// bare.
void ask_for_odd_shapes(const kernels::Device& device, const Arithmetic& arithmetic, Answers& answers);

}  // namespace lockstep::vendor
