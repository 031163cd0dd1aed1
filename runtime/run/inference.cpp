#include "runtime/run/inference.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "data/sampler.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"
#include "kernels/loss.h"
#include "runtime/machine/open_device.h"
#include "runtime/plan/signature.h"
#include "runtime/run/rank_agreement.h"
#include "runtime/run/run_plans.h"
#include "runtime/run/task_agreement.h"
#include "runtime/run/task_names.h"
#include "runtime/weights/parameter_io.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t slot = 0;

/// The first dimension of these tensors in the file; none when it has none of them.
std::optional<std::int64_t> rows_of(const std::vector<std::string>& names, const WeightsFile& weights) {
  for (const std::string& name : names) {
    const WeightsTensor* tensor = weights.find(name);
    if (tensor != nullptr && tensor->shape.rank() > 0) return tensor->shape[0];
  }
  return std::nullopt;
}

/// Puts the vocabulary of the weights into `spec`; false when they have the same or none.
bool adopt_vocabulary_of(const Options& options, const WeightsFile& weights, const TrainingTask& task,
                         data::SampleSpec& spec) {
  if (spec.vocab_size == 0) return false;
  const auto vocab_size = rows_of(token_parameters(build_forward(task.model, task.input, 1)), weights);
  if (!vocab_size || *vocab_size == task.input.vocab_size) return false;
  if (*vocab_size < spec.vocab_size) {
    const std::string file = vocabulary_file(options);
    throw DataError(fmt::format("{}: it knows {} tokens, {} {}", weights.path().string(), *vocab_size,
                                file.empty() ? "the samples have" : "but vocab_size is, by " + file + ",",
                                spec.vocab_size));
  }
  spec.vocab_size = *vocab_size;
  return true;
}

/// Numbers by names are a guess where the weights have more classes, and do not tell what they are called.
std::string note_on_classes(const Options& options, const WeightsFile& weights, std::int64_t of_samples,
                            std::int64_t of_weights) {
  if (of_samples >= of_weights || !weights.class_names().empty() || !numbers_classes_by_name(options))
    return {};
  return fmt::format(
      "{}: its {} classes are numbered from 0 in the order of their names, but {} knows {} and not their "
      "names: scores are right only if the classes that are missing here are the last; give samples of each "
      "class, or weights with class_names in their metadata",
      source_of(options), of_samples, weights.path().string(), of_weights);
}

/// What the loss reads is what the network gives, after all passes.
const Launch& loss_launch(const Plan& plan) {
  const auto& nodes = plan.graph.nodes();
  const auto is_loss = [&](const model::Node& node) {
    return !node.outputs.empty() && plan.graph.value(node.outputs.front()).role == model::Role::control;
  };
  const auto found = std::ranges::find_if(nodes, is_loss);
  if (found == nodes.end()) throw std::logic_error("a plan without a loss");
  return plan.launches.nodes[static_cast<std::size_t>(found - nodes.begin())];
}

std::int64_t rows_in_batch(const data::UnpaddedSampler& sampler, std::int64_t batch,
                           std::int64_t batch_size) {
  return std::clamp<std::int64_t>(sampler.size() - batch * batch_size, 0, batch_size);
}

}  // namespace

TrainingTask task_for_weights(const Options& options, const WeightsFile& weights, data::SampleSpec spec,
                              data::DatasetPtr samples) {
  // Samples without targets tell no classes: what a model of tokens predicts are its tokens, if not values.
  const bool of_tokens = spec.target_dtype == DType::i64 && spec.vocab_size > 0 &&
                         predicts_tokens(options, wanted_input(options));
  if (of_tokens) spec.num_classes = spec.vocab_size;
  TrainingTask task = make_task_for(options, spec);
  if (adopt_vocabulary_of(options, weights, task, spec)) {
    if (of_tokens) spec.num_classes = spec.vocab_size;
    task = make_task_for(options, spec);
  }
  const auto classes = spec.num_classes > 0
                           ? rows_of(head_parameters(build_forward(task.model, task.input, 1)), weights)
                           : std::nullopt;
  if (classes && *classes != spec.num_classes) {
    const std::int64_t of_samples = std::exchange(spec.num_classes, *classes);
    task = make_task_for(options, spec);
    task.note = note_on_classes(options, weights, of_samples, *classes);
  }
  task.test_set = std::move(samples);
  return task;
}

Inference::Inference(const Options& options, Session& session, TrainingTask task, const WeightsFile& weights,
                     Gives gives)
    : options_(options),
      session_(session),
      task_(std::move(task)),
      batch_size_(batch_size_per_rank(options, session.world.size)),
      samples_(options.eval_samples > 0 ? options.eval_samples : task_.test_set->size()),
      lengths_(
          gives != Gives::scores
              ? std::vector<std::int64_t>()
              : batch_lengths_of(task_, {.batch_size = batch_size_}, session.activity.get()).evaluation) {
  Options of_plan = options;
  of_plan.amp =
      judged_on_all_ranks(*session.communicator, [&] { return amp_on(*session.device, options.amp); });
  of_plan.freeze.clear();
  PlanConstraints constraints = plan_constraints(of_plan);
  for (const PlanKey& key : of_lengths({{.mode = Mode::evaluate, .batch = batch_size_}}, lengths_)) {
    plans_.push_back(make_plan(
        task_.model, task_.input,
        {.key = key, .keeps_outputs = gives != Gives::scores, .returns_states = gives == Gives::states},
        *session.device, constraints));
    constraints.parameter_layouts = parameter_layouts(plans_.front().graph);
    constraints.arena = plans_.front().arena;
  }
  require_equal(*session.communicator, "the model",
                exchange_signature(plans_.front(), *session.device, {}) +
                    fmt::format("samples {} in batches of {}\n", samples_, batch_size_));
  memory_ = std::make_unique<ReplicaMemory>(*session.device, *session.communicator, plans_);
  executor_ = std::make_unique<Executor>(*session.device, *session.communicator, *memory_);
  if (syncs_launches(options)) executor_->wait_after_each();
  ParameterIO replica(*session.device, plans_.front(), *memory_);
  const Activity::Work reading(session.activity.get(), "reading " + weights.path().string());
  replica.load(weights);
  require_equal(*session.communicator, "the weights", replica.fingerprint());
}

std::optional<Evaluation> Inference::run(const StopRequest& stop_request, const TakeOutputs& take) {
  std::int64_t batch = 0;
  EvaluationOptions evaluating{
      .batch_size = batch_size_,
      .lengths = lengths_,
      .num_workers = options_.num_workers < 0 ? session_.cores : options_.num_workers,
      .prefetch_factor = options_.prefetch_factor,
      .pins_memory = pins_memory(options_),
      .timeout = Seconds(options_.timeout),
      .samples = samples_,
      .source = source_of(options_),
      .activity = session_.activity.get()};
  const bool is_silent = options_.quiet || options_.progress == "none" || !session_.is_rank0();
  // Standard output is for what was asked; predictions come there one by one.
  if (!take && !is_silent) evaluating.tell = [](const std::string& line) { log::info(line); };
  if (take) {
    evaluating.batch_done = [&](std::int64_t rows) { gather_outputs(batch++, rows, take); };
  }
  const auto plan_of = [this](std::int64_t length) -> const Plan& {
    return *std::ranges::find(plans_, length, [](const Plan& plan) { return plan.key().length; });
  };
  return evaluate(*session_.device, *session_.communicator, *memory_, *executor_, plan_of, slot,
                  task_.test_set, evaluating, stop_request);
}

Shape Inference::states_shape() const {
  const model::Graph& graph = plans_.front().graph;
  if (graph.final_states == model::no_value) return {};
  const Shape& all = graph.value(graph.final_states).type.shape;
  return Shape(std::vector<std::int64_t>(all.begin() + 1, all.end()));
}

/// `columns` f32 of each sample of all ranks from this address of their batch's plan, on rank 0. Rank r has
/// samples r, r + R, ... of a batch of all ranks.
std::vector<float> Inference::gather(std::int64_t batch, std::int64_t rows, const Operand& operand,
                                     std::int64_t columns) {
  const int ranks = session_.world.size;
  std::vector<float> all;
  std::vector<float> part(static_cast<std::size_t>(batch_size_ * columns));
  const auto row_at = [columns](std::vector<float>& values, std::int64_t row) {
    return values.begin() + static_cast<std::ptrdiff_t>(row * columns);
  };
  for (int rank = 0; rank < ranks; ++rank) {
    const data::UnpaddedSampler sampler{.samples = samples_, .replicas = ranks, .rank = rank};
    const std::int64_t count = rows_in_batch(sampler, batch, batch_size_);
    const std::span<float> values(part.data(), static_cast<std::size_t>(count * columns));
    if (rank == session_.world.rank && rows > 0) {
      kernels::Stream& stream = executor_->stream();
      session_.device->copy_to_host(values.data(), memory_->address(operand, slot), values.size_bytes(),
                                    stream);
      stream.synchronize();
    }
    if (ranks > 1 && count > 0) session_.communicator->broadcast(std::as_writable_bytes(values), rank);
    if (!session_.is_rank0()) continue;
    const std::int64_t needed = count > 0 ? (count - 1) * ranks + rank + 1 : 0;
    all.resize(std::max(all.size(), static_cast<std::size_t>(needed * columns)));
    for (std::int64_t row = 0; row < count; ++row) {
      std::copy_n(row_at(part, row), columns, row_at(all, row * ranks + rank));
    }
  }
  return all;
}

void Inference::gather_outputs(std::int64_t batch, std::int64_t rows, const TakeOutputs& take) {
  const Launches& launches = plans_.front().launches;
  const Launch& loss = loss_launch(plans_.front());
  constexpr std::size_t predictions = kernels::SoftmaxCrossEntropy::predictions;
  const std::int64_t columns = loss.io.inputs[predictions].shape.elements() / batch_size_;
  const std::vector<float> outputs = gather(batch, rows, loss.operands[predictions], columns);
  std::vector<float> states;
  if (const Shape shape = states_shape(); shape.rank() > 0)
    states = gather(batch, rows, launches.states, shape.elements());
  const std::int64_t first = batch * batch_size_ * session_.world.size;
  const std::int64_t set_size = task_.test_set->size();
  std::vector<std::int64_t> samples(outputs.size() / static_cast<std::size_t>(columns));
  for (std::size_t row = 0; row < samples.size(); ++row)
    samples[row] = data::chosen_sample(first + static_cast<std::int64_t>(row), samples_, set_size);
  take({.samples = samples, .set_size = set_size, .rows = outputs, .columns = columns, .states = states});
}

}  // namespace lockstep::runtime
