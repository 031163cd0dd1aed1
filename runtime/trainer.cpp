#include "runtime/trainer.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "comm/bootstrap/bootstrap.h"
#include "data/sampler.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"
#include "kernels/base/sha256.h"
#include "kernels/base/version.h"
#include "runtime/checkpoint/drift.h"
#include "runtime/failure.h"
#include "runtime/open_device.h"
#include "runtime/plan/benchmark.h"
#include "runtime/requests.h"
#include "runtime/signature.h"

namespace lockstep::runtime {
namespace {

/// With the numbers that depend on the machine filled in.
Options resolved(Options options, const Session& session) {
  options.threads = session.device->threads();
  if (options.num_workers < 0) options.num_workers = usable_cores(session.world);
  if (options.resume.empty()) options.resume = default_resume(comm::process_environment());
  return options;
}

data::DistributedSampler sampler_for(const Options& options, const comm::World& world, std::int64_t samples) {
  return {.samples = samples,
          .replicas = world.size,
          .rank = world.rank,
          .shuffle = true,
          .seed = options.seed,
          .drop_last = options.drop_last};
}

/// What the last bits depend on beside the settings.
Settings machine_of(const Session& session, const std::string& signature) {
  return {{"instruction set", session.device->instruction_set()},
          {"threads", std::to_string(session.device->threads())},
          {"backend", std::string(session.communicator->backend())},
          {"exchange signature", Sha256().update(signature).hex().substr(0, 16)}};
}

NamedTensor loss_tensor(double loss) {
  return {.name = "loss", .shape = {}, .values = {static_cast<float>(loss)}};
}

}  // namespace

Trainer::Trainer(const Options& options, Session& session, TrainingTask task, StopRequest& stop_request)
    : options_(resolved(options, session)),
      session_(session),
      task_(std::move(task)),
      screen_(make_screen(options.progress, options.quiet || !session.speaks(), session.launch_columns)),
      stop_request_(stop_request) {
  stop_request_.accept();
  settle_batch_size();
  find_checkpoint();
  make_plans();
  const std::string signature =
      exchange_signature(plans_.front(), options_.optimizer, *session_.device, decisions_.algorithms);
  require_equal(*session_.communicator, "the exchange", signature);
  machine_ = machine_of(session_, signature);
  memory_ =
      std::make_unique<ReplicaMemory>(*session_.device, *session_.communicator, plans_, options_.optimizer);
  executor_ = std::make_unique<Executor>(*session_.device, *session_.communicator, *memory_, plans_,
                                         options_.optimizer);
  set_up_parameters();
  checkpointer_ = std::make_unique<Checkpointer>(
      *session_.communicator, ParameterAccess(*session_.device, plans_.front(), *memory_), place_, options_,
      resumed_ && place_.goes_on ? counters_.step : -1);
  if (session_.speaks()) open_folder();
  start_watch();
}

Trainer::~Trainer() {
  session_.communicator->watch({});
}

/// From now on a failed group says where this rank was, and a rank that waits for anything but its peers (the
/// loader, a disk) still ends in time.
void Trainer::start_watch() {
  const auto leave = [run = folder(), rank = session_.world.rank](const comm::FailureReport& report) {
    if (report.reporter() == rank) report_failure(report, run);
    spdlog::error(report.cause);
    std::_Exit(static_cast<int>(ExitCode::peer));
  };
  session_.communicator->watch(
      {.whereabouts = [here = executor_->whereabouts()] { return here->text(); }, .overdue = leave});
}

void Trainer::find_checkpoint() {
  comm::Communicator& communicator = *session_.communicator;
  place_ =
      agree_on_place(communicator, run_folder(options_, task_.model.name, session_.world), options_.resume);
  require_unused(communicator, place_);
  resumed_ = find_resume_point(communicator, place_);
  settings_ = settings_of(options_, session_.world, task_.train_set->size());
  if (!resumed_) return;
  const RunState& state = resumed_->state;
  require_same_settings(resumed_->folder, state.settings, settings_);
  counters_ = {.step = state.step,
               .epoch = state.batch == 0 ? state.epoch - 1 : state.epoch,
               .next_epoch = state.epoch,
               .next_batch = state.batch,
               .samples = state.samples,
               .loss = state.loss};
  evaluated_at_step_ = state.evaluated_at_step;
}

void Trainer::settle_batch_size() {
  const comm::World& world = session_.world;
  batch_size_ = batch_size_per_rank(options_, world.size);
  epoch_samples_ = sampler_for(options_, world, task_.train_set->size()).size();
  if (epoch_samples_ < 1 || (options_.drop_last && epoch_samples_ < batch_size_)) {
    throw UsageError(
        fmt::format("{} samples do not give each of {} ranks a batch of {}: take a smaller --batch-size",
                    task_.train_set->size(), world.size, batch_size_));
  }
}

std::vector<PlanRequest> Trainer::plan_requests() const {
  const PlanRequest full =
      training_request(options_, std::min(batch_size_, epoch_samples_), session_.world.size > 1);
  std::vector<PlanRequest> requests{full};
  const std::int64_t rest = epoch_samples_ % full.batch_size;
  const std::int64_t full_steps = epoch_samples_ / full.batch_size;
  const bool rest_is_reached = options_.max_steps == 0 || options_.max_steps > full_steps;
  if (rest != 0 && !options_.drop_last && rest_is_reached) {
    requests.push_back(full);
    requests.back().batch_size = rest;
  }
  if (task_.test_set != nullptr) {
    requests.push_back(
        {.mode = Mode::evaluate, .batch_size = full.batch_size, .buckets = {}, .schedule = {}});
  }
  return requests;
}

void Trainer::make_plans() {
  const auto plan = [this](const PlanRequest& request) {
    return make_plan(task_.model, task_.input, request, *session_.device, decisions_);
  };
  for (const PlanRequest& request : plan_requests()) {
    plans_.push_back(plan(request));
    if (plans_.size() > 1) continue;
    decisions_.parameter_layouts = parameter_layouts(plans_.front().graph);
    decisions_.algorithms = choose_algorithms();
    if (!decisions_.algorithms.empty()) plans_.front() = plan(request);
  }
  evaluation_plan_ = plans_.size() - 1;
}

/// Those of the checkpoint, so that the bits stay; else with --benchmark what rank 0 measures.
AlgorithmChoices Trainer::choose_algorithms() {
  if (resumed_) return resumed_->state.algorithms;
  if (!options_.benchmark) return {};
  const bool measures = session_.world.rank == 0;
  const std::string text =
      measures ? to_text(benchmark_algorithms(plans_.front(), *session_.device)) : std::string();
  return choices_from_text(session_.communicator->all_gather(text).front());
}

void Trainer::set_up_parameters() {
  ParameterAccess access(*session_.device, plans_.front(), *memory_);
  if (resumed_) {
    access.load(resumed_->folder / "model.safetensors");
    access.load_optimizer_state(resumed_->folder / "optimizer.safetensors", options_.optimizer);
  } else if (options_.init_from.empty()) {
    access.initialise(options_.seed);
  } else {
    access.load(options_.init_from);
  }
  if (session_.world.size > 1) {
    require_equal(*session_.communicator, "the initial weights", sha256_of(access.parameters()));
  }
}

void Trainer::open_folder() {
  const bool goes_on = place_.resume != "none";
  folder_.emplace(place_.run, goes_on ? std::optional(counters_.step) : std::nullopt);
  folder_->write_config(to_ini(options_));
  MemoryNeed need = memory_need(plans_, options_.optimizer);
  need.checkpoint = staged_checkpoint_bytes();
  screen_.say(fmt::format(
      "{}: {} parameters, {} rank{} x {} thread{}, batch {} per rank, {:.1f} MiB planned per rank",
      task_.model.name, plans_.front().graph.parameter_elements(), session_.world.size,
      session_.world.size > 1 ? "s" : "", session_.device->threads(),
      session_.device->threads() > 1 ? "s" : "", plans_.front().request.batch_size,
      static_cast<double>(need.total()) / (1 << 20)));
  if (goes_on) tell_of_resumption();
}

void Trainer::tell_of_resumption() {
  if (!resumed_) {
    screen_.say(fmt::format("no checkpoint in {}: begins at the beginning", place_.run.string()));
    return;
  }
  screen_.say(fmt::format("goes on after step {} (epoch {}) from {}", counters_.step, counters_.epoch + 1,
                          resumed_->folder.string()));
  if (const std::string text = differences(resumed_->state.machine, machine_); !text.empty()) {
    spdlog::warn("the checkpoint was made with {}: the run goes on, but its last bits may differ", text);
  }
}

/// What the plan counts for checkpoints: without --checkpoint-every there is but the one of a stop.
std::size_t Trainer::staged_checkpoint_bytes() const {
  return options_.checkpoint_every > 0 ? staged_bytes(plans_.front(), options_.optimizer) : 0;
}

std::int64_t Trainer::total_steps() const {
  const std::int64_t batch = plans_.front().request.batch_size;
  const std::int64_t per_epoch =
      options_.drop_last ? epoch_samples_ / batch : (epoch_samples_ + batch - 1) / batch;
  const std::int64_t by_epochs = options_.epochs * per_epoch;
  if (options_.epochs == 0) return options_.max_steps;
  return options_.max_steps == 0 ? by_epochs : std::min(by_epochs, options_.max_steps);
}

Summary Trainer::run() {
  const data::DistributedSampler sampler = sampler_for(options_, session_.world, task_.train_set->size());
  data::LoaderOptions loading{.batch_size = plans_.front().request.batch_size,
                              .drop_last_batch = options_.drop_last,
                              .workers = options_.num_workers,
                              .prefetch_factor = options_.prefetch_factor,
                              .first_epoch = counters_.next_epoch,
                              .first_batch = counters_.next_batch};
  if (options_.epochs > 0) loading.epochs = options_.epochs - counters_.next_epoch;
  if (ends_evaluated_epoch() && evaluated_at_step_ != counters_.step)
    evaluate_now(0);  // a stop came before it
  if (counters_.step < total_steps()) {
    data::Loader loader(
        task_.train_set, [&](std::int64_t epoch) { return sampler.indices(epoch); }, loading);
    train(loader);
  }
  return finish();
}

void Trainer::train(data::Loader& loader) {
  BatchFeed feed(loader, *session_.device, *memory_, Seconds(options_.timeout));
  std::optional<DeviceBatch> batch = feed.next(0);
  std::array first_targets{static_cast<double>(batch->samples)};
  session_.communicator->all_reduce_sum(first_targets);
  global_targets_ = first_targets[0];
  metrics_.start();
  for (const std::int64_t last_step = total_steps(); batch;) {
    std::optional<DeviceBatch> next;
    executor_->whereabouts()->start_step(counters_.step + 1);
    executor_->whereabouts()->enter(Whereabouts::Phase::loading);
    if (counters_.step + 1 < last_step) next = feed.next((batch->slot + 1) % batch_slot_count);
    executor_->whereabouts()->enter(Whereabouts::Phase::computing);
    const double samples = global_targets_;
    const StepTiming timing = run_step(*batch, next ? next->samples : 0);
    counters_.samples += static_cast<std::int64_t>(samples);
    metrics_.step_done(timing, feed.waited_ns(), static_cast<std::int64_t>(samples));
    if (!made_a_step()) first_step_done();
    report(*batch);
    require_finite();
    checkpointer_->check();
    if (!counters_.stopped && ends_evaluated_epoch()) evaluate_now(batch->slot);
    if (counters_.stopped || checkpointer_->due(counters_.step)) save_checkpoint();
    if (counters_.stopped) return;
    batch = next;
  }
}

StepTiming Trainer::run_step(const DeviceBatch& batch, std::int64_t next_samples) {
  const std::size_t plan = batch.samples == plans_.front().request.batch_size ? 0 : 1;
  kernels::StepState state{.loss_scale = static_cast<float>(1.0 / global_targets_),
                           .valid_samples = static_cast<std::int32_t>(batch.samples),
                           .seed = options_.seed};
  model::set_step(options_.optimizer, counters_.step + 1, state);
  kernels::ControlBlock control{.next_targets = static_cast<float>(next_samples),
                                .stop_requests = stop_request_.made() ? 1.0F : 0.0F};
  kernels::Device& device = *session_.device;
  kernels::Stream& stream = executor_->stream();
  device.copy_to_device(memory_->step_state(), &state, sizeof(state), stream);
  device.copy_to_device(memory_->training_control(), &control, sizeof(control), stream);
  const StepTiming timing = executor_->run(plan, batch.slot);
  device.copy_to_host(&control, memory_->training_control(), sizeof(control), stream);
  stream.synchronize();

  ++counters_.step;
  counters_.epoch = batch.epoch;
  counters_.next_epoch = batch.last_of_epoch ? batch.epoch + 1 : batch.epoch;
  counters_.next_batch = batch.last_of_epoch ? 0 : batch.index + 1;
  counters_.loss = control.loss;
  counters_.not_finite = control.not_finite > 0;
  counters_.stopped = control.stop_requests > 0;
  global_targets_ = control.next_targets;
  return timing;
}

void Trainer::first_step_done() {
  startup_ms_ = static_cast<double>(boottime_ns() - session_.start_boottime_ns) / 1e6;
  if (folder_) folder_->forget_summary();
  if (options_.dump_gradients.empty() || !session_.speaks()) return;
  std::vector<NamedTensor> tensors = ParameterAccess(*session_.device, plans_.front(), *memory_).gradients();
  tensors.insert(tensors.begin(), loss_tensor(counters_.loss));
  save_tensors(options_.dump_gradients, tensors);
}

void Trainer::report(const DeviceBatch& batch) {
  if (!folder_) return;
  const bool logs = counters_.step % options_.log_every == 0;
  const std::int64_t total = total_steps();
  if (!logs && !screen_.due() && counters_.step != total) return;
  Progress progress = metrics_.take_window();
  progress.step = counters_.step;
  progress.total_steps = total;
  progress.epoch = batch.epoch;
  progress.epochs = options_.epochs;
  progress.loss = counters_.loss;
  progress.seconds_left = static_cast<double>(total - counters_.step) * progress.step_ms / 1e3;
  if (logs) folder_->log_step(progress);
  if (screen_.due() || counters_.step == total) screen_.show(progress);
}

bool Trainer::ends_evaluated_epoch() const {
  return counters_.step > 0 && counters_.next_batch == 0 && options_.eval_every > 0 &&
         counters_.next_epoch % options_.eval_every == 0;
}

/// Not in step_ms and samples_per_s, as evaluations are not.
void Trainer::save_checkpoint() {
  metrics_.pause();
  executor_->whereabouts()->enter(Whereabouts::Phase::saving);
  checkpointer_->save({.step = counters_.step,
                       .epoch = counters_.next_epoch,
                       .batch = counters_.next_batch,
                       .samples = counters_.samples,
                       .loss = counters_.loss,
                       .evaluated_at_step = evaluated_at_step_,
                       .settings = settings_,
                       .machine = machine_,
                       .algorithms = decisions_.algorithms});
  metrics_.resume();
}

void Trainer::evaluate_now(std::size_t slot) {
  const bool again = evaluated_at_step_ == counters_.step;
  if (task_.test_set == nullptr || (again && evaluation_)) return;
  metrics_.pause();
  executor_->whereabouts()->enter(Whereabouts::Phase::evaluating);
  evaluation_ = evaluate(*session_.device, *session_.communicator, *memory_, *executor_, evaluation_plan_,
                         slot, task_.test_set,
                         {.batch_size = plans_[evaluation_plan_].request.batch_size,
                          .num_workers = options_.num_workers,
                          .prefetch_factor = options_.prefetch_factor,
                          .timeout = Seconds(options_.timeout)});
  evaluated_at_step_ = counters_.step;
  if (folder_ && !again) {
    folder_->log_evaluation(counters_.step, counters_.epoch, *evaluation_);
    screen_.say(evaluation_->classes
                    ? fmt::format("epoch {}: test loss {:.4f}, accuracy {:.4f} ({} samples)",
                                  counters_.epoch + 1, evaluation_->loss, evaluation_->accuracy,
                                  evaluation_->samples)
                    : fmt::format("epoch {}: test loss {:.4f} ({} samples)", counters_.epoch + 1,
                                  evaluation_->loss, evaluation_->samples));
  }
  metrics_.resume();
}

void Trainer::require_finite() const {
  if (!counters_.not_finite) return;
  throw NonFiniteError(
      fmt::format("the loss is not finite at step {} (epoch {}): lower --lr (it is {}), or look for "
                  "bad samples",
                  counters_.step, counters_.epoch + 1, options_.optimizer.learning_rate));
}

Summary Trainer::finish() {
  if (!counters_.stopped && options_.eval_every > 0) evaluate_now(0);
  if (options_.checkpoint_every > 0) save_checkpoint();
  checkpointer_->wait();
  const std::vector<NamedTensor> weights =
      ParameterAccess(*session_.device, plans_.front(), *memory_).parameters();
  Summary summary{.world_size = session_.world.size,
                  .device = session_.device->name(),
                  .instruction_set = session_.device->instruction_set(),
                  .threads = session_.device->threads(),
                  .backend = std::string(session_.communicator->backend()),
                  .model = task_.model.name,
                  .dataset = options_.dataset,
                  .version = std::string(version()),
                  .parameters = plans_.front().graph.parameter_elements(),
                  .steps = counters_.step,
                  .samples = counters_.samples,
                  .final_loss = counters_.loss,
                  .eval = evaluation_,
                  .startup_ms = startup_ms_,
                  .plan_bytes = static_cast<std::int64_t>(session_.device->allocated_bytes() +
                                                          plans_.front().arena.gradient_bytes +
                                                          staged_checkpoint_bytes()),
                  .weights_sha256 = sha256_of(weights),
                  .stopped = counters_.stopped};
  metrics_.fill(summary);
  require_no_drift(session_.communicator->all_gather(summary.weights_sha256), counters_.step);
  const auto peaks = session_.communicator->all_gather(std::to_string(memory_watch_.peak_bytes()));
  for (const std::string& peak : peaks)
    summary.peak_memory_bytes = std::max(summary.peak_memory_bytes, std::stol(peak));
  if (folder_) write_results(summary, weights);
  session_.communicator->barrier();
  return summary;
}

void Trainer::write_results(const Summary& summary, const std::vector<NamedTensor>& weights) {
  const std::string folder = folder_->path().string();
  if (!made_a_step() && folder_->is_finished()) {
    screen_.say(fmt::format("nothing is left to do after {} steps, {}", summary.steps, folder));
    return;
  }
  save_tensors(folder_->weights(), weights);
  folder_->write_summary(summary);
  screen_.say(fmt::format("{} after {} steps, {:.0f} samples/s, {}", summary.stopped ? "stopped" : "done",
                          summary.steps, summary.samples_per_s, folder));
  if (summary.stopped) {
    screen_.say(fmt::format("saved {}; go on with --resume auto --run-dir {}", checkpointer_->last().string(),
                            folder));
  }
}

}  // namespace lockstep::runtime
