#include "model/layers.h"

namespace lockstep::model {

Tensor segment(Tensor x, const std::function<Tensor(Tensor)>& block) {
  const bool is_outermost = x.graph().begin_segment();
  const Tensor y = block(x);
  if (is_outermost) x.graph().end_segment();
  return y;
}

}  // namespace lockstep::model
