#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/layers.h"
#include "tests/unit/kernels/harness.h"

namespace lockstep::ops {

using kernels::test::Values;
using model::Tensor;

/// What is true of an op wherever it runs: its layer in a graph, with the nodes of its gradient, on the
/// device under test (LOCKSTEP_TEST_DEVICE), in the layouts that its kernels choose.
struct Conformance {
  std::string name;  ///< goldens are those that begin with it: "tanh/"
  /// The layer on its inputs. Parameters that it makes are inputs of the reference, too, behind these.
  std::function<Tensor(const std::vector<Tensor>&)> layer;
  std::function<Values(const std::vector<Values>&)> reference;
  std::vector<std::string> operands;       ///< names of inputs and parameters, as goldens have them
  std::vector<std::vector<Shape>> shapes;  ///< of the inputs, case by case: odd ones
  double tolerance = 0;                    ///< of y and gradients in f32, as numbers up to 1 make them
  std::vector<DType> dtypes{DType::f32};   ///< others are allowed one rounding of theirs more
  /// By input: not 0 for one of i64 tokens, which are -1 or below it, and have no gradient.
  std::vector<std::int64_t> vocab{};
};

/// y against the reference in double; every gradient against central differences of the reference; y and
/// gradients against PyTorch's goldens, of which there must be one.
void conform(const Conformance& op);

}  // namespace lockstep::ops
