#include "kernels/base/error.h"
#include "model/layers.h"

namespace lockstep::model {

Tensor segment(Tensor x, const std::function<Tensor(Tensor)>& block) {
  if (!block) throw UsageError("segment: its block is no function: give the layers that it stands for");
  const bool is_outermost = x.graph().begin_segment();
  const Tensor y = block(x);
  if (is_outermost) x.graph().end_segment();
  return y;
}

}  // namespace lockstep::model
