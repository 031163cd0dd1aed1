#include "runtime/run/trainer.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/host.h"
#include "runtime/checkpoint/checkpointer.h"
#include "runtime/output/console.h"
#include "runtime/run/task_names.h"

namespace lockstep::runtime {
namespace {

NamedTensor loss_tensor(double loss) {
  return {.name = "loss", .shape = {}, .values = {static_cast<float>(loss)}};
}

/// As GradScaler::unscale_.
void unscale(std::vector<NamedTensor>& gradients, float scale) {
  const auto factor = static_cast<float>(1.0 / static_cast<double>(scale));
  for (NamedTensor& gradient : gradients) {
    for (float& value : gradient.values) value *= factor;
  }
}

}  // namespace

Summary Trainer::run() {
  const data::DistributedSampler sampler = sampler_for(options_, session_.world, task_.train_set->size());
  const auto order = [&, dealt_from = progress_.dealt_from](std::int64_t epoch) {
    data::EpochSamples samples = epoch == batching_.rest_epoch ? sampler.rest(epoch, dealt_from)
                                                               : data::EpochSamples(sampler.indices(epoch));
    samples.indices.resize(static_cast<std::size_t>(batching_.in_epoch(epoch).samples));
    return samples;
  };
  const std::int64_t steps_of_epoch = progress_.next_batch(batching_.step_samples() * session_.world.size);
  data::LoaderOptions loading{.batch_size = batching_.batch_size,
                              .batches_per_step = batching_.micro_batches,
                              .lengths = plans_.lengths.training,
                              .workers = options_.num_workers,
                              .prefetch_factor = options_.prefetch_factor,
                              .first_epoch = progress_.next_epoch,
                              .first_batch = steps_of_epoch * batching_.micro_batches,
                              .device = pins_memory(options_) ? session_.device.get() : nullptr,
                              .source = source_of(recorded(options_, task_))};
  if (options_.epochs > 0) loading.epochs = options_.epochs - progress_.next_epoch;
  if (evaluates_first()) evaluate_now(0);
  if (!progress_.stopped && progress_.step < batching_.total_steps) {
    data::Loader loader(task_.train_set, order, loading);
    train(loader);
  }
  return finish();
}

/// An epoch or the run had come to its end before it was stopped, but was not evaluated.
bool Trainer::evaluates_first() const {
  const bool ends_run = options_.eval_every > 0 && progress_.step >= batching_.total_steps;
  return (ends_run || progress_.ends_evaluated_epoch(options_.eval_every)) &&
         progress_.evaluated_at_step != progress_.step;
}

void Trainer::train(data::Loader& loader) {
  DevicePrefetcher prefetcher(loader, *session_.device, *memory_, Seconds(options_.timeout),
                              session_.activity.get());
  prefetcher.fetch();
  const auto micro_batch_of = [&](const data::BatchInfo& batch) {
    return batching_.micro_batch(batch.index, batching_.in_epoch(batch.epoch));
  };
  const auto targets_of_step = [&] { return prefetcher.info().step_targets; };
  std::array first_targets{static_cast<double>(targets_of_step())};
  session_.communicator->all_reduce_sum(first_targets);
  StepPipeline pipeline(*session_.device, *session_.communicator, *memory_, *executor_, first_targets[0]);
  const auto finish_all_but = [&](std::size_t ahead) {
    while (pipeline.in_flight() > ahead) {
      if (const auto step = pipeline.finish()) step_done(*step, prefetcher.take_waited_ns());
    }
  };
  DeviceBatch batch = prefetcher.copy(0);
  metrics_.start();
  prefetcher.take_waited_ns();  // for the first batch, before that clock began
  for (std::int64_t step = progress_.step + 1;;) {
    const MicroBatch micro_batch = micro_batch_of(batch.info);
    const bool ends = ends_step(micro_batch.role);
    executor_->step_tracker()->start_step(step);
    executor_->step_tracker()->enter(StepTracker::Phase::loading);
    const bool has_next = (!ends || step < batching_.total_steps) && prefetcher.fetch();
    prefetcher.finish_copy();
    executor_->step_tracker()->enter(StepTracker::Phase::computing);
    pipeline.start(plans_.at(micro_batch.key(batch.info.length)), batch,
                   step_input(step, micro_batch, ends && has_next ? targets_of_step() : 0));
    const bool pauses = ends && pauses_after(step, batch.info);
    if (pauses || !has_next) executor_->settle();
    finish_all_but(has_next && !pauses ? pipeline.most_ahead() : 0);
    const DeviceBatch next = has_next ? prefetcher.copy((batch.slot + 1) % batch_slot_count) : DeviceBatch{};
    if (ends) {
      if (progress_.stopped) {
        finish_all_but(0);
        executor_->settle();
      }
      if (pipeline.in_flight() == 0) evaluate_and_save_after(step, batch.slot);
      if (progress_.stopped) return;
      ++step;
    }
    if (!has_next) return;
    batch = next;
  }
}

/// Between that step and the next.
void Trainer::evaluate_and_save_after(std::int64_t step, std::size_t free_slot) {
  if (!progress_.stopped && progress_.ends_evaluated_epoch(options_.eval_every)) evaluate_now(free_slot);
  // The last step is saved behind the evaluation at the end.
  const bool saves = checkpointer_->due(step) && step < batching_.total_steps;
  if (progress_.stopped) return save_checkpoint(Afterwards::ends);
  if (saves) save_checkpoint(Afterwards::continues);
}

/// The sampler deals the samples of a global batch out to the ranks in turn.
kernels::StepInput Trainer::step_input(std::int64_t step, const MicroBatch& micro_batch,
                                       std::int64_t next_targets) {
  return {.state = {.learning_rate = options_.optimizer.learning_rate,
                    .seed = options_.seed,
                    .global_step = step,
                    .first_sample = session_.world.rank + micro_batch.first_sample * session_.world.size,
                    .sample_stride = session_.world.size},
          .control = {.next_targets = static_cast<float>(next_targets),
                      .rank = static_cast<float>(session_.world.rank),
                      .stop_requests = stop_request_.made() ? 1.0F : 0.0F,
                      // Times the rate on the device: the ranks' sum is rank 0's.
                      .learning_rate = session_.is_rank0() ? 1.0F : 0.0F,
                      .samples = static_cast<float>(micro_batch.step_samples)}};
}

/// Whether the run uses the replica (dump, checkpoint, evaluation) between that step and the next.
bool Trainer::pauses_after(std::int64_t step, const data::BatchInfo& batch) const {
  const bool dumps = !made_a_step() && !options_.dump_gradients.empty();
  return dumps || checkpointer_->due(step) ||
         TrainingProgress::ends_evaluated_epoch(batch, options_.eval_every);
}

void Trainer::step_done(const FinishedStep& step, std::int64_t data_wait_ns) {
  progress_.advance(step.batch, step.samples, step.control);
  metrics_.step_done(step.timing, data_wait_ns, step.samples, step.ended);
  if (gpu_log_) gpu_log_->set_step(progress_.step);
  if (!made_a_step()) first_step_done();
  agree_on_cuda_graphs(step.timing);
  report(step.batch);
  require_finite();
  require_scale();
  checkpointer_->check();
}

/// One rank's vote makes all ranks replay: a collective in a graph needs its peers in graphs too.
void Trainer::agree_on_cuda_graphs(const StepTiming& timing) {
  if (!cuda_graph_policy_.observe(timing)) return;
  std::array votes{cuda_graph_policy_.wants_graphs() ? 1.0 : 0.0};
  session_.communicator->all_reduce_sum(votes);
  cuda_graph_policy_.decide(votes[0] > 0);
  if (votes[0] > 0) executor_->use_graphs(without_graph(options_.cuda_graph));
}

void Trainer::first_step_done() {
  startup_ms_ = static_cast<double>(boottime_ns() - session_.start_boottime_ns) / 1e6;
  if (files_) files_->remove_summary();
  if (options_.dump_gradients.empty() || !session_.is_rank0()) return;
  std::vector<NamedTensor> tensors = replica().gradients();
  if (scales_gradients()) unscale(tensors, progress_.scaler_scale);
  tensors.insert(tensors.begin(), loss_tensor(progress_.loss));
  const Activity::Work work(session_.activity.get(), "writing " + options_.dump_gradients.string());
  save_tensors(options_.dump_gradients, tensors);
}

void Trainer::report(const data::BatchInfo& batch) {
  if (!files_) return;
  if (progress_.step % options_.log_every == 0) {
    const Activity::Work work(session_.activity.get(),
                              [this] { return "writing " + files_->log().string(); });
    files_->log_step(progress_for(RunMetrics::Reader::log, batch));
  }
  if (console_.due() || progress_.step == batching_.total_steps)
    console_.show(progress_for(RunMetrics::Reader::console, batch));
}

Progress Trainer::progress_for(RunMetrics::Reader reader, const data::BatchInfo& batch) {
  const std::int64_t total = batching_.total_steps;
  Progress progress = metrics_.take_window(reader);
  progress.step = progress_.step;
  progress.total_steps = total;
  progress.epoch = batch.epoch;
  progress.epochs = options_.epochs;
  progress.loss = progress_.loss;
  progress.learning_rate = progress_.learning_rate;
  if (options_.clip_grad_norm > 0) progress.gradient_norm = progress_.gradient_norm;
  if (scales_gradients()) progress.grad_scale = progress_.scaler_scale;
  progress.seconds_left = static_cast<double>(total - progress_.step) * progress.step_ms / 1e3;
  return progress;
}

/// Not counted in step_ms and samples_per_s, as evaluations are not.
void Trainer::save_checkpoint(Afterwards afterwards) {
  metrics_.pause();
  executor_->step_tracker()->enter(StepTracker::Phase::saving);
  replica().broadcast_buffers(*session_.communicator);
  RunState state = progress_.state();
  state.applied_updates = replica().applied_updates();
  if (scales_gradients()) state.grad_scaler = replica().grad_scaler();
  state.schedule_steps = batching_.schedule_steps;
  state.settings = settings_;
  state.machine = machine_;
  state.algorithms = plans_.constraints.algorithms;
  state.replayed = cuda_graph_policy_.decision();
  if (executor_->walks_without_graph()) state.replayed = false;
  checkpointer_->save(std::move(state), afterwards);
  metrics_.resume();
}

void Trainer::evaluate_now(std::size_t slot) {
  const bool again = progress_.evaluated_at_step == progress_.step;
  if (task_.test_set == nullptr || (again && evaluation_)) return;
  metrics_.pause();
  executor_->step_tracker()->enter(StepTracker::Phase::evaluating);
  replica().broadcast_buffers(*session_.communicator);
  evaluation_ = evaluate(
      *session_.device, *session_.communicator, *memory_, *executor_,
      [this](std::int64_t length) -> const Plan& { return plans_.for_evaluation(length); }, slot,
      task_.test_set,
      {.batch_size = batching_.batch_size,
       .lengths = plans_.lengths.evaluation,
       .num_workers = options_.num_workers,
       .prefetch_factor = options_.prefetch_factor,
       .pins_memory = pins_memory(options_),
       .timeout = Seconds(options_.timeout),
       .samples = options_.eval_samples,
       .source = source_of(recorded(options_, task_)),
       .activity = session_.activity.get(),
       .tell = [this](const std::string& line) { console_.print(line); }},
      stop_request_);
  progress_.stopped = !evaluation_;
  if (evaluation_) progress_.evaluated_at_step = progress_.step;
  if (files_ && evaluation_ && !again) {
    const Activity::Work work(session_.activity.get(),
                              [this] { return "writing " + files_->log().string(); });
    files_->log_evaluation(progress_.step, progress_.epoch, *evaluation_);
    console_.print(evaluation_line(progress_.epoch, *evaluation_));
  }
  if (evaluation_ && !std::isfinite(evaluation_->loss)) {
    throw NonFiniteError(
        fmt::format("the loss on the test set is not finite after step {} (epoch {}): lower --lr, or look "
                    "for bad samples there",
                    progress_.step, progress_.epoch + 1));
  }
  metrics_.resume();
}

void Trainer::require_finite() const {
  if (progress_.not_finite == 0) return;
  executor_->settle();  // all ranks end behind the same exchange
  const auto what = [this]() -> std::string {
    if (std::isfinite(progress_.loss)) return "gradients' norm";
    if (session_.world.size == 1) return "loss";
    if (progress_.not_finite == 1) return fmt::format("loss of rank {}", progress_.not_finite_rank);
    return fmt::format("loss of {} of {} ranks", progress_.not_finite, session_.world.size);
  };
  throw NonFiniteError(
      fmt::format("the {} is not finite at step {} (epoch {}): lower --lr (it is {}), or look for "
                  "bad samples; --detect-anomaly names the first op",
                  what(), progress_.step, progress_.epoch + 1, progress_.learning_rate));
}

/// A scale below all numbers of fp16 would be halved for ever, and no step applied: it is not the scale that
/// makes those gradients infinite.
void Trainer::require_scale() const {
  constexpr float least = 0x1p-24F;
  if (!scales_gradients() || progress_.scaler_scale >= least) return;
  executor_->settle();
  throw NonFiniteError(
      fmt::format("the gradients are not finite in fp16 at step {} (epoch {}), whatever their scale, which "
                  "fell to {:.3g}: look for bad samples, or give --amp bf16 or off",
                  progress_.step, progress_.epoch + 1, progress_.scaler_scale));
}

}  // namespace lockstep::runtime
