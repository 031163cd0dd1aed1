#pragma once

#include <cmath>

#include "kernels/loss.h"

namespace lockstep::kernels {

/// Adds the rows in their order, so that the sum does not depend on the team.
inline void account(const RowLoss* losses, std::int64_t rows, float scale, ControlBlock& control) {
  double loss = 0;
  double correct = 0;
  double top5 = 0;
  double targets = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    loss += losses[row].loss;
    correct += losses[row].correct;
    top5 += losses[row].top5;
    targets += losses[row].targets;
  }
  control.loss += static_cast<float>(loss * scale);
  control.correct += static_cast<float>(correct);
  control.top5 += static_cast<float>(top5);
  control.targets += static_cast<float>(targets);
  if (std::isfinite(loss)) return;
  control.not_finite = 1;
  control.not_finite_ranks = control.rank;
}

}  // namespace lockstep::kernels
