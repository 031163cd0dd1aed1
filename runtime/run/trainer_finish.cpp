// From the last step to the final weights and summary.json.
#include <algorithm>
#include <string>
#include <vector>

#include "kernels/base/version.h"
#include "runtime/output/failure.h"
#include "runtime/run/device_data.h"
#include "runtime/run/rank_agreement.h"
#include "runtime/run/task_names.h"
#include "runtime/run/trainer.h"

namespace lockstep::runtime {

Summary Trainer::finish() {
  if (!progress_.stopped && options_.eval_every > 0) evaluate_now(0);
  // Of a run that goes on in RUN, too: with its older checkpoints alone `--resume auto` would train once
  // more.
  const bool continues = resumed_ && run_directory_.resuming;
  if (options_.checkpoint_every > 0 || progress_.stopped || continues) save_checkpoint(Afterwards::ends);
  checkpointer_->wait();
  replica().broadcast_buffers(*session_.communicator);
  Summary summary{.world_size = session_.world.size,
                  .device = session_.device->name(),
                  .instruction_set = session_.device->instruction_set(),
                  .threads = session_.device->threads(),
                  .backend = std::string(session_.communicator->backend()),
                  .model = task_.model.name,
                  .dataset = recorded(options_, task_).dataset,
                  .data_device = options_.data_device,
                  .version = std::string(version()),
                  .amp = options_.amp,
                  .conv_precision = std::string(conv_name_of(plans_.full_batch().conv_precision)),
                  .parameters = plans_.full_batch().graph.parameter_elements(),
                  .steps = progress_.step,
                  .samples = progress_.samples,
                  .final_loss = progress_.loss,
                  .applied_updates = {},
                  .grad_scale = {},
                  .eval = evaluation_,
                  .startup_ms = startup_ms_,
                  .plan_bytes = static_cast<std::int64_t>(
                      memory_->bytes() + staged_checkpoint_bytes(options_, plans_.full_batch())),
                  .device_bytes_used = static_cast<std::int64_t>(session_.device->used_bytes()),
                  .pinned_bytes = static_cast<std::int64_t>(
                      pinned_bytes(*session_.device, options_, plans_.full_batch())),
                  .stopped = progress_.stopped};
  if (scales_gradients()) {
    summary.applied_updates = replica().applied_updates();
    summary.grad_scale = replica().grad_scaler().scale;
  }
  if (!session_.communicator->tells_skew())
    metrics_.tell_skew(session_.communicator->all_gather(metrics_.transfers()));
  metrics_.fill(summary);
  free_training_memory();
  const std::vector<NamedTensor> weights = replica().parameters();
  summary.weights_sha256 = sha256_of(weights);
  if (!checkpointer_->has_saved(progress_.step)) {
    require_equal_replicas(session_.communicator->all_gather(summary.weights_sha256), progress_.step);
    if (const std::string tensor = first_not_finite(weights); !tensor.empty())
      throw_not_finite(tensor, progress_.step);
  }
  summary.peak_memory_bytes =
      std::ranges::max(gather_numbers(*session_.communicator, memory_watch_.peak_bytes()));
  if (files_) write_results(summary, weights);
  session_.communicator->barrier();
  if (run_directory_.writes_checkpoints) remove_failure(run_directory_.run);
  return summary;
}

/// Copies of the weights for files then take less than steps took: the plan's peak stays the run's.
void Trainer::free_training_memory() {
  memory_watch_.sample();
  session_.communicator->barrier();  // a peer may still read this rank's gradients
  executor_.reset();
  memory_->keep_weights();
}

void Trainer::write_results(const Summary& summary, const std::vector<NamedTensor>& weights) {
  const std::filesystem::path& run = files_->path();
  if (!made_a_step() && is_finished(run)) return console_.print(nothing_left_line(summary, run));
  Activity::Work work(session_.activity.get(), "writing " + files_->weights().string());
  save_weights(run, weights, static_cast<std::size_t>(options_.max_shard_bytes), kept_names(task_));
  work.advance();
  files_->write_summary(summary);
  console_.print(ending_line(summary, run));
  if (summary.stopped) console_.print(saved_line(checkpointer_->last(), run));
}

}  // namespace lockstep::runtime
