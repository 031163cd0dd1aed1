// From options to a trainer that is ready for its first step.
#include <algorithm>
#include <exception>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "comm/world/world.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/checkpoint/restart.h"
#include "runtime/checkpoint/saved_weights.h"
#include "runtime/machine/open_device.h"
#include "runtime/output/console.h"
#include "runtime/output/failure.h"
#include "runtime/plan/print.h"
#include "runtime/plan/signature.h"
#include "runtime/run/batch_size.h"
#include "runtime/run/device_data.h"
#include "runtime/run/rank_agreement.h"
#include "runtime/run/run_plans.h"
#include "runtime/run/task_names.h"
#include "runtime/run/trainer.h"
#include "runtime/weights/initial_weights.h"

namespace lockstep::runtime {
namespace {

/// Why steps cannot be replayed as CUDA graphs; empty if they can. A graph contains work on the device's
/// streams only: with several ranks the exchange must be there too.
std::string obstacle_to_graphs(const Session& session, const Options& options) {
  if (!session.device->has_graphs()) return "graphs need a GPU";
  if (syncs_launches(options)) return "--sync-launch waits behind each op, which a graph does not let it";
  if (options.detect_anomaly) return "--detect-anomaly looks at each op, which a graph does not let it";
  return session.communicator->obstacle_to_graphs();
}

/// The options with defaults that depend on the machine and the model.
Options resolved(Options options, const TrainingTask& task, const Session& session) {
  options.threads = session.device->threads();
  options.amp =
      judged_on_all_ranks(*session.communicator, [&] { return amp_on(*session.device, options.amp); });
  if (!options.conv_precision) options.conv_precision = default_conv_precision(*session.device);
  if (!options.label_smoothing) options.label_smoothing = task.model.label_smoothing;
  options.data_device = keeps_data(task) ? "gpu" : "host";
  if (options.tokenizer.empty()) options.tokenizer = task.tokenizer;
  if (options.num_workers < 0) options.num_workers = session.cores;
  if (options.batch_size == automatic_batch && options.global_batch == 0)
    options.batch_size =
        automatic_batch_size(options, task, session, obstacle_to_graphs(session, options).empty());
  return options;
}

KnownTokens known_tokens(const TrainingTask& task) {
  using Kind = KnownTokens::Kind;
  const Kind kind = !task.tokenizer_fingerprint.empty() ? Kind::of_tokenizer
                    : !task.token_names.empty()         ? Kind::characters
                                                        : Kind::numbers;
  return {.kind = kind, .end_of_text = task.end_of_text};
}

/// The ranks sum their counts in fp32, which is exact up to here.
void require_countable(const TrainingTask& task, const Batching& batching, const comm::World& world) {
  const std::int64_t targets = task.input.num_classes > 0 ? task.input.target_shape.elements() : 1;
  const std::int64_t samples = batching.step_samples() * world.size;
  if (targets <= most_global_batch / samples) return;
  throw UsageError(
      fmt::format("a step of {} samples with {} targets each: at most {} targets a step; take a "
                  "smaller --batch-size",
                  samples, targets, most_global_batch));
}

/// Ranks that cut batches to lengths of their own take different plans in a step: one of them may be captured
/// already and another not, and a collective in a graph needs its peers in graphs.
CudaGraphPolicy walks_only(const CudaGraphPolicy& asked) {
  if (asked.from_the_start()) {
    throw UsageError(
        "--cuda-graph on: with several ranks graphs need sequences of one length, and these are padded; "
        "leave it out");
  }
  return {"off", ""};
}

}  // namespace

Trainer::Trainer(const Options& options, Session& session, TrainingTask task, StopRequest& stop_request)
    : task_(fed_to(session, options.data_device, std::move(task))),
      options_(resolved(options, task_, session)),
      session_(session),
      console_(make_console(options.progress, options.quiet || !session.is_rank0(), session.launch_columns)),
      stop_request_(stop_request),
      cuda_graph_policy_(options.cuda_graph, obstacle_to_graphs(session, options)) {
  stop_request_.accept();
  if (options.batch_size != options_.batch_size)
    console_.print(fmt::format("--batch-size auto: {} per rank", options_.batch_size));
  // First: what is judged by these all ranks then find alike.
  agree_on_settings();
  find_checkpoint();
  require_schedule(options_, batching_, resumed_.has_value());
  agree_on_plans();
  make_replica();
  set_up_parameters();
  std::optional<std::int64_t> saved_step;
  if (resumed_ && run_directory_.resuming) saved_step = progress_.step;
  checkpointer_ = std::make_unique<Checkpointer>(*session_.communicator, replica(), run_directory_, options_,
                                                 kept_names(task_), saved_step, session_.activity.get());
  const std::map<int, std::string> gpus = gpus_of_this_machine(*session_.communicator, *session_.device);
  if (session_.is_rank0()) {
    open_files();
    gpu_log_.emplace(*files_, gpus, progress_.step);
  }
  watch_for_failure(*session_.communicator, executor_->step_tracker(), *session_.activity, folder());
  if (new_folder_) new_folder_->keep();
}

Trainer::~Trainer() {
  // After a failure the watchdog continues: on a GPU, freeing memory waits for kernels that a lost peer keeps
  // from ending.
  if (std::uncaught_exceptions() == 0) session_.communicator->watch({});
}

void Trainer::agree_on_settings() {
  settings_ = settings_of(options_, session_.world, task_.train_set->size(), task_.data_fingerprint);
  std::ranges::copy(digests_of(task_), std::back_inserter(settings_));
  require_equal_settings(*session_.communicator, settings_);
  batching_ = batching_of(options_, session_.world, task_.train_set->size());
  require_countable(task_, batching_, session_.world);
}

void Trainer::find_checkpoint() {
  comm::Communicator& communicator = *session_.communicator;
  Activity* const activity = session_.activity.get();
  run_directory_ = agree_on_run_directory(
      communicator, run_folder(recorded(options_, task_), task_.model.name, session_.world), options_.resume,
      activity);
  if (run_directory_.is_new) new_folder_.emplace(run_directory_.run, activity);
  follow_restart(communicator, run_directory_, comm::process_environment(), activity);
  run_lock_ = lock_run(communicator, run_directory_, activity);
  require_unused(communicator, run_directory_, activity);
  resumed_ = find_resume_point(communicator, run_directory_, activity);
  if (!resumed_) return;
  require_same_settings(resumed_->folder, resumed_->state.settings, settings_,
                        names_a_path(run_directory_.resume));
  progress_ = TrainingProgress::of(resumed_->state);
  if (ranks_in(resumed_->state.settings) != session_.world.size) progress_.deal_rest();
  resume_batching(batching_, options_, sampler_for(options_, session_.world, task_.train_set->size()),
                  progress_);
}

void Trainer::agree_on_plans() {
  plans_ = plan_run(options_, task_, batching_, session_,
                    resumed_ ? std::optional(resumed_->state.algorithms) : std::nullopt);
  if (session_.world.size > 1 && !plans_.lengths.training.empty())
    cuda_graph_policy_ = walks_only(cuda_graph_policy_);
  // Behind `walks_only`, which refuses only what was asked for.
  if (resumed_ && resumed_->state.replayed) cuda_graph_policy_.decide(*resumed_->state.replayed);
  const std::string signature =
      plugin_lines(task_) +
      exchange_signature(plans_.full_batch(), *session_.device, plans_.constraints.algorithms);
  require_equal(*session_.communicator, "the exchange", signature);
  require_memory(options_, task_, plans_, session_);
  machine_ = machine_of(*session_.device, session_.communicator->backend(), signature);
  if (resumed_) {
    require_one_course(*session_.communicator, run_directory_, resumed_->state.step, settings_, machine_,
                       session_.activity.get());
  }
}

void Trainer::make_replica() {
  memory_ = std::make_unique<ReplicaMemory>(*session_.device, *session_.communicator, plans_.all);
  executor_ = std::make_unique<Executor>(*session_.device, *session_.communicator, *memory_);
  if (options_.detect_anomaly) executor_->detect_anomalies();
  if (syncs_launches(options_)) executor_->wait_after_each();
  if (cuda_graph_policy_.from_the_start()) executor_->use_graphs(without_graph(options_.cuda_graph));
  fill_store(session_, task_, memory_->stored());
}

void Trainer::set_up_parameters() {
  ParameterIO weights = replica();
  std::optional<Activity::Work> reading;
  if (resumed_) {
    reading.emplace(session_.activity.get(), "reading " + resumed_->folder.string());
    weights.load(WeightsFile(resumed_->folder / "model.safetensors"));
    weights.load_optimizer_state(resumed_->folder / "optimizer.safetensors");
    weights.set_applied_updates(resumed_->state.applied_updates, resumed_->state.grad_scaler);
  } else if (options_.init_from.empty()) {
    weights.initialise(options_.seed);
  } else {
    reading.emplace(session_.activity.get(), "reading " + options_.init_from.string());
    const WeightsFile file = open_weights(find_saved_weights(options_.init_from), options_.model);
    const model::Graph forward = model::build_forward(task_.model, task_.input, 1);
    const KnownParts parts{.head = model::head_parameters(forward),
                           .of_tokens = model::token_parameters(forward),
                           .classes = task_.class_names,
                           .of_text = known_tokens(task_).kind != KnownTokens::Kind::numbers};
    for (const std::string& line : start_from(weights, file, parts, options_.seed)) console_.print(line);
  }
  reading.reset();
  if (session_.world.size == 1) return;
  weights.broadcast_buffers(*session_.communicator);
  require_equal(*session_.communicator, "the initial weights", weights.fingerprint());
}

void Trainer::open_files() {
  const bool resuming = run_directory_.resume != "none";
  const Activity::Work work(session_.activity.get(), "making files in " + folder().string());
  // A run that goes on from a checkpoint of another RUN has logged nothing here.
  const LoggedPart logged = {.step = progress_.step, .evaluates = evaluates_first()};
  files_.emplace(run_directory_.run, run_directory_.resuming ? logged : LoggedPart{});
  files_->write_config(to_ini(recorded(options_, task_)));
  write_pretrained_config(run_directory_.run, options_, replica().weight_shapes(), known_tokens(task_));
  console_.print(opening_line({.model = task_.model.name,
                               .parameters = plans_.full_batch().graph.parameter_elements(),
                               .world_size = session_.world.size,
                               .threads = session_.device->threads(),
                               .batch_size = batching_.batch_size,
                               .micro_batches = batching_.micro_batches,
                               .planned_bytes = run_memory_need(options_, plans_.all).total()}));
  if (const std::string note = task_.train_set->note(); !note.empty()) console_.print(note);
  if (!task_.note.empty()) console_.print(task_.note);
  if (const std::string lost = task_.train_set->warning(); !lost.empty()) log::warn(lost);
  if (!plans_.benchmark_report.empty()) console_.print(plans_.benchmark_report);
  if (options_.amp == "bf16" && !session_.device->has_bf16()) {
    log::warn("this processor has no arithmetic on bf16: --amp computes products in fp32 and rounds them");
  }
  if (const std::string slow = warning_of(plans_.full_batch()); !slow.empty()) console_.print(slow);
  if (resuming) print_resumption();
}

void Trainer::print_resumption() {
  if (!resumed_) return console_.print(fresh_start_line(run_directory_.run));
  console_.print(resumption_line(progress_.step, progress_.epoch, resumed_->folder));
  if (const int before = ranks_in(resumed_->state.settings); before != session_.world.size) {
    console_.print(
        other_ranks_line(before, session_.world.size,
                         progress_.dealt_from == 0 ? 0 : task_.train_set->size() - progress_.dealt_from));
  }
  print_changed_rate();
  if (const std::string text = warm_up_to_the_end(options_.optimizer, batching_); !text.empty()) {
    log::warn("{}; a smaller --batch-size or --global-batch makes more steps", text);
  }
  if (const std::string text = differences(resumed_->state.machine, machine_); !text.empty()) {
    log::warn("the checkpoint was made with {}: the run goes on, but its last bits may differ", text);
  }
  if (const std::string text = fallback_warning_of(plans_.full_batch()); !text.empty()) log::warn(text);
}

/// A schedule over --epochs is as long as their steps, and other ranks make another number of these.
void Trainer::print_changed_rate() {
  using Kind = kernels::LearningRateSchedule::Kind;
  kernels::LearningRateSchedule schedule = options_.optimizer.schedule;
  const bool ends = schedule.kind == Kind::cosine || schedule.kind == Kind::linear;
  const std::int64_t before = resumed_->state.schedule_steps;
  if (!ends || before == 0 || before == batching_.schedule_steps) return;
  const auto rate_in = [&](std::int64_t steps) {
    schedule.steps = steps;
    return schedule.rate(options_.optimizer.learning_rate, resumed_->state.applied_updates, progress_.epoch);
  };
  console_.print(changed_rate_line({before, rate_in(before)},
                                   {batching_.schedule_steps, rate_in(batching_.schedule_steps)}));
}

}  // namespace lockstep::runtime
