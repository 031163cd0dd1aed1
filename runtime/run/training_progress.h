#pragma once

#include <cstdint>

#include "data/loader.h"
#include "kernels/step_state.h"
#include "runtime/checkpoint/run_state.h"

namespace lockstep::runtime {

/// Progress of a run between two steps; the same on all ranks.
struct TrainingProgress {
  std::int64_t step = 0;
  std::int64_t epoch = 0;          ///< of the last step, counted from 0
  std::int64_t next_epoch = 0;     ///< of the next batch
  std::int64_t epoch_samples = 0;  ///< done there, over all ranks
  std::int64_t dealt_from = 0;     ///< done there when other ranks began the epoch: the rest is dealt anew
  std::int64_t samples = 0;        ///< done in all epochs, over all ranks
  double loss = 0;                 ///< of the last step, over all ranks
  double gradient_norm = 0;        ///< of the last step, before clipping; 0 without
  double learning_rate = 0;        ///< of the last step
  float scaler_scale = 0;          ///< GradScaler's in the last step; 0 without
  int not_finite = 0;              ///< ranks whose loss, or all ranks' norm, is not finite
  int not_finite_rank = 0;         ///< if it is the loss of one: which
  bool stopped = false;
  std::int64_t evaluated_at_step = -1;

  /// The progress at a checkpoint.
  static TrainingProgress of(const RunState& state);
  /// For a checkpoint: all but applied updates, the schedule's steps, settings, machine and algorithms.
  RunState state() const;

  /// The epoch's rest goes to other ranks than those that began it.
  void deal_rest() { dealt_from = epoch_samples; }
  /// The epoch ends here: `--drop-last` leaves no step of its rest.
  void drop_rest();

  /// Index of the next step in each rank's part of the epoch, when all ranks together take `global_batch`
  /// samples a step. DataError when the completed samples are no whole number of such steps.
  std::int64_t next_batch(std::int64_t global_batch) const;

  /// Records a completed step with `batch` over `global_samples` of all ranks; `control`: its summed block.
  void advance(const data::BatchInfo& batch, std::int64_t global_samples,
               const kernels::ControlBlock& control);

  /// Whether the run is between two epochs, and one in `eval_every` has just ended.
  bool ends_evaluated_epoch(std::int64_t eval_every) const;
  /// The same after a step with `batch`.
  static bool ends_evaluated_epoch(const data::BatchInfo& batch, std::int64_t eval_every);
};

}  // namespace lockstep::runtime
