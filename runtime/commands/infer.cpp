// `trainer eval` and `trainer predict`: what weights give on samples.
#include <cmath>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/checkpoint/saved_weights.h"
#include "runtime/commands/commands.h"
#include "runtime/commands/generate.h"
#include "runtime/commands/prediction_input.h"
#include "runtime/commands/with_peers.h"
#include "runtime/options/option_readers.h"
#include "runtime/options/typed_options.h"
#include "runtime/output/run_files.h"
#include "runtime/output/standard_output.h"
#include "runtime/plan/signature.h"
#include "runtime/run/inference.h"
#include "runtime/run/kept_plans.h"
#include "runtime/run/rank_agreement.h"
#include "runtime/run/task_names.h"

namespace lockstep::runtime {
namespace {

/// What both commands were told.
struct Request {
  SavedWeights saved;
  CommandOptions told;
  std::vector<std::string> inputs;  ///< operands behind the weights

  const Options& options() const { return told.options; }
};

Request read_request(const std::vector<std::string>& arguments, std::string_view command) {
  Request request;
  bool found = false;
  request.told = parse_options_of_run(arguments, [&](const std::string& operand) {
    request.saved = find_saved_weights(operand);
    found = true;
    return request.saved.config;
  });
  if (!found) {
    throw UsageError(
        fmt::format("trainer {} WEIGHTS [options]: name a run, a checkpoint, or a file of weights", command));
  }
  Options& options = request.told.options;
  if (!request.saved.config) take_pretrained_config(options, request.saved.weights, ModelUse::inference);
  if (options.model.empty()) {
    throw UsageError(fmt::format("{}: no config.ini tells the model of these weights; give --model NAME",
                                 request.saved.weights.string()));
  }
  // A plugin's has the plugin in its config.ini.
  const bool is_known = !options.plugins.empty() || model::find_entry(model::zoo(), options.model) != nullptr;
  if (request.saved.config && !is_known && !options.is_typed("model")) {
    throw UsageError(fmt::format("{}: model '{}' is of a program of one's own, whose runs have no trainer {}",
                                 request.saved.config->string(), options.model, command));
  }
  const bool tensors = request.told.data_given && options.data_dir.extension() == ".safetensors";
  if (tensors && command == "eval") options.dataset = "tensors";
  request.inputs.assign(request.told.operands.begin() + 1, request.told.operands.end());
  return request;
}

/// UsageError for options that stand on the command line for nothing. A config file may be meant for other
/// commands, too.
void require_read(const OptionReader& command, const Request& request) {
  require_read_by_command(command, request.options());
  if (&command == &prompt_options()) return;
  Options judged = request.options();
  judged.typed = judged.on_command_line;
  if (samples_are_tensors(request.told, request.inputs)) judged.dataset = "tensors";
  require_read_by_dataset(judged);
}

/// What a rank has opened.
struct Opened {
  PredictionInput input;
  TrainingTask task;
};

/// Runs `body` on all ranks with the model of the request on `open`'s samples; 75 when it was stopped.
template <class Open, class Body>
int infer(const Request& request, Inference::Gives gives, const Open& open, Body&& body) {
  StopRequest stop_request;
  Session session = open_session(request.options());
  keep_library_plans(session);
  return with_peers(session, request.options().timeout, [&](const SetRun&) {
    stop_request.accept();
    const WeightsFile weights = open_weights(request.saved, request.options().model);
    Opened opened = judged_on_all_ranks(*session.communicator, [&] {
      PredictionInput input = open(session, weights);
      TrainingTask task = task_for_weights(request.options(), weights, input.samples->spec(), input.samples);
      require_fitting(task, request.options());
      return Opened{std::move(input), std::move(task)};
    });
    require_equal(*session.communicator, "the pictures",
                  fmt::format("{}\n", fmt::join(opened.input.names.files, "\n")));
    const std::string lost = opened.input.samples->warning();
    if (session.is_rank0() && !lost.empty()) log::warn(lost);
    const std::string& note = opened.task.note;
    if (gives == Inference::Gives::scores && session.is_rank0() && !note.empty()) log::warn(note);
    Inference inference(request.options(), session, std::move(opened.task), weights, gives);
    const bool done = body(session, inference, opened.input, stop_request);
    session.communicator->barrier();
    return done ? ExitCode::done : ExitCode::stopped;
  });
}

/// A class for each token is shown of the last that is no padding.
PredictionKind kind_of(const data::DatasetPtr& samples, const Shape& states) {
  const data::SampleSpec& spec = samples->spec();
  PredictionKind kind{.classes = spec.num_classes > 0,
                      .states = states,
                      .place = [samples](std::int64_t sample) { return samples->place_of(sample); }};
  if (!kind.classes || spec.target_shape.rank() == 0) return kind;
  kind.tokens = spec.target_shape[0];
  kind.last_token = [samples](std::int64_t sample) {
    const data::SampleSpec& described = samples->spec();
    if (described.vocab_size == 0) return described.target_shape[0] - 1;
    std::vector<std::byte> input(described.input_bytes());
    std::vector<std::byte> target(described.target_bytes());
    samples->get(sample, 0, input, target);
    return data::tokens_in(described, input) - 1;
  };
  return kind;
}

/// The weights, or one of their shards, would be lost when they have been read.
void require_another_file(const std::filesystem::path& output, const Request& request) {
  namespace fs = std::filesystem;
  std::error_code absent;
  if (output.empty() || !fs::exists(output, absent)) return;
  const fs::path folder = fs::absolute(output).parent_path();  // of a bare name, too
  const auto is_input = [&](const fs::path& read) {
    const bool holds_it = fs::is_directory(read, absent) && fs::equivalent(read, folder, absent) &&
                          output.filename().string().starts_with("model");
    return holds_it || fs::equivalent(read, output, absent);
  };
  if (is_input(request.saved.weights) || is_input(request.options().data_dir))
    throw UsageError(
        fmt::format("--output {}: is what trainer predict reads; name another file", output.string()));
}

/// Made, and given up again: what keeps the file from being written is told before all is computed.
void try_output(const std::filesystem::path& output, const Session& session) {
  if (output.empty() || !session.is_rank0()) return;
  const Activity::Work trying(session.activity.get(), "writing " + output.string());
  const AtomicFile given_up(output);
}

/// Prompts are what texts go on from, and standard output is where.
void require_prompts_alone(const Request& request) {
  const auto refuse = [](const std::string& word) {
    throw UsageError(fmt::format("{} beside --prompt or --prompt-file: leave one out", word));
  };
  if (!request.inputs.empty()) refuse(fmt::format("'{}'", request.inputs.front()));
  if (!request.options().output.empty()) refuse("--output");
}

void require_finite(const Evaluation& evaluation, const Request& request) {
  if (std::isfinite(evaluation.loss)) return;
  throw NonFiniteError(
      fmt::format("the loss of {} on {} is not finite: weights are not, or targets are no "
                  "classes of this model",
                  request.saved.weights.string(), source_of(request.options())));
}

}  // namespace

int eval_command(const std::vector<std::string>& arguments) {
  const Request request = read_request(arguments, "eval");
  if (!request.inputs.empty()) {
    throw UsageError(
        fmt::format("'{}': trainer eval takes one file or folder of weights; data are named by "
                    "--dataset and --data-dir",
                    request.inputs.front()));
  }
  require_read(eval_options(), request);
  const auto open = [&](Session& session, const WeightsFile& weights) {
    TestSet set = open_test_set(request.options(), weights, session.activity.get());
    return PredictionInput{.samples = std::move(set.samples), .names = {}};
  };
  return infer(request, Inference::Gives::scores, open,
               [&](Session& session, Inference& inference, PredictionInput&, const StopRequest& stop) {
                 const auto evaluation = inference.run(stop);
                 if (!evaluation) return false;
                 require_finite(*evaluation, request);
                 if (session.is_rank0()) print_result(to_json(*evaluation).dump());
                 return true;
               });
}

int predict_command(const std::vector<std::string>& arguments) {
  const Request request = read_request(arguments, "predict");
  if (request.options().generation.asked_for()) {
    require_prompts_alone(request);
    require_read(prompt_options(), request);
    return write_on(request.saved, request.options());
  }
  require_read(predict_options(), request);
  require_another_file(request.options().output, request);
  const auto open = [&](Session& session, const WeightsFile& weights) {
    try_output(request.options().output, session);
    return open_prediction_input(request.told, request.inputs, weights, session);
  };
  const auto gives = samples_are_tensors(request.told, request.inputs) ? Inference::Gives::states
                                                                       : Inference::Gives::outputs;
  return infer(request, gives, open,
               [&](Session& session, Inference& inference, PredictionInput& input, const StopRequest& stop) {
                 PredictionOutput output(std::move(input.names),
                                         kind_of(input.samples, inference.states_shape()),
                                         request.options().output);
                 const auto take = [&](const PredictedBatch& batch) {
                   const std::vector<std::int64_t> unreadable = unreadable_pictures(input, session);
                   if (session.is_rank0()) output.take(batch, unreadable);
                 };
                 if (!inference.run(stop, take)) return false;
                 if (session.is_rank0()) output.finish();
                 return true;
               });
}

}  // namespace lockstep::runtime
