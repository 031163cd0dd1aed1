#include "runtime/plan/precision.h"

#include "model/ops/conv2d.h"
#include "model/ops/linear.h"

namespace lockstep::runtime {
namespace {

using namespace model;

/// `op` at `precision` if it is a T, else null.
template <class T>
OpPtr at_precision(const Op& op, kernels::MatmulPrecision precision) {
  const T* original = dynamic_cast<const T*>(&op);
  if (original == nullptr) return nullptr;
  auto copy = std::make_shared<T>(*original);
  copy->edit().precision = precision;
  return copy;
}

template <class... Products>
void set_in(Node& node, kernels::MatmulPrecision precision) {
  OpPtr changed;
  ((changed = changed ? changed : at_precision<Products>(*node.op, precision)), ...);
  if (changed) node.op = changed;
}

}  // namespace

void set_matmul_precision(Graph& graph, kernels::MatmulPrecision precision) {
  for (Node& node : graph.nodes()) {
    set_in<Linear, LinearBackwardData, LinearBackwardWeights, Conv2d, Conv2dBackwardData,
           Conv2dBackwardWeights>(node, precision);
  }
}

}  // namespace lockstep::runtime
