#pragma once

#include "kernels/pointwise_functions.h"

namespace lockstep::kernels {

/// torch.lerp: starts from the end that weighs more, whose digits the difference may have lost.
LOCKSTEP_INLINE float lerped(float from, float to, float weight) {
  const bool is_small = weight < 0.5F;
  return (is_small ? from : to) + (is_small ? weight : weight - 1) * (to - from);
}

}  // namespace lockstep::kernels
