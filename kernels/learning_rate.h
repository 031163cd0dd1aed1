#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/pointwise_functions.h"

namespace lockstep::kernels {

/// How the learning rate goes over a run: PyTorch's schedulers in closed form, in double. Of `updates`
/// applied ones, with base rate lr and T = steps - warmup_steps:
///   constant  lr
///   step      lr * gamma^(epoch / step_epochs): StepLR, stepped once an epoch
///   cosine    least + (lr - least) * (1 + cos(pi * u / T)) / 2: CosineAnnealingLR(T_max=T, eta_min=least)
///   linear    lr + (least - lr) * u / T: LinearLR(1, least / lr, total_iters=T)
/// The last two are stepped once an update, u = updates - warmup_steps, and stay at `least` from T on.
///
/// The first `warmup_steps` updates have (updates + 1) / (warmup_steps + 1) of the rate:
/// LinearLR(1 / (warmup_steps + 1), 1, total_iters=warmup_steps), joined with cosine and linear by
/// SequentialLR(milestones=[warmup_steps]), with step by ChainedScheduler. Of step no rate is below `least`;
/// the warm-up of the others is not bounded by it.
struct LearningRateSchedule {
  enum class Kind : std::int64_t { constant, step, cosine, linear };

  Kind kind = Kind::constant;
  double least = 0;
  double gamma = 0.1;
  std::int64_t step_epochs = 30;
  std::int64_t warmup_steps = 0;
  std::int64_t steps = 0;  ///< applied updates from the start to the end, warm-up included

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schedule", static_cast<std::int64_t>(kind));
    visit("least", least);
    visit("gamma", gamma);
    visit("step_epochs", step_epochs);
    visit("warmup_steps", warmup_steps);
    visit("steps", steps);
  }

  /// Of the update behind `updates` applied ones, in `epoch`, counted from 0.
  LOCKSTEP_INLINE double rate(double base, std::int64_t updates, std::int64_t epoch) const {
    if (updates < warmup_steps) {
      base *= static_cast<double>(updates + 1) / static_cast<double>(warmup_steps + 1);
    }
    if (kind == Kind::step) {
      const double decayed = base * std::pow(gamma, static_cast<double>(epoch / step_epochs));
      return decayed > least ? decayed : least;
    }
    if (kind == Kind::constant || updates < warmup_steps) return base;
    if (updates >= steps) return least;
    const double share =
        static_cast<double>(updates - warmup_steps) / static_cast<double>(steps - warmup_steps);
    if (kind == Kind::linear) return base + (least - base) * share;
    constexpr double pi = 3.14159265358979323846;
    return least + (base - least) * (1 + std::cos(pi * share)) / 2;
  }
};

}  // namespace lockstep::kernels
