#include "runtime/plan/precision.h"

namespace lockstep::runtime {

void set_matmul_precision(model::Graph& graph, kernels::MatmulPrecision precision) {
  for (model::Node& node : graph.nodes()) {
    if (model::OpPtr changed = node.op->with_precision(precision)) node.op = std::move(changed);
  }
}

}  // namespace lockstep::runtime
