#include "runtime/commands/prediction_input.h"

#include <optional>

#include "data/built_in.h"
#include "kernels/base/json.h"
#include "runtime/run/task.h"
#include "runtime/run/task_agreement.h"

namespace lockstep::runtime {
namespace {

/// Of samples that have none: values if the weights were trained to give such, else what the model wants.
data::SampleSpec targets_for(const Options& options, const WeightsFile& weights) {
  const model::InputSpec wanted = wanted_input(options);
  const std::optional<Shape> values = weights.values_shape();
  data::SampleSpec targets{.target_dtype = DType::f32,
                           .target_shape = values.value_or(wanted.target_shape),
                           .vocab_size = wanted.vocab_size,
                           .states_shape = wanted_states(options)};
  if (values || wanted.num_classes == 0) return targets;
  targets.target_dtype = DType::i64;
  targets.num_classes = options.num_classes >= 0 ? options.num_classes : wanted.num_classes;
  return targets;
}

bool names_tensors(const CommandOptions& told) {
  return told.data_given && told.options.data_dir.extension() == ".safetensors";
}

/// The weights tell the names of their classes, or the data set does.
std::vector<std::string> class_names_for(const Options& options, const WeightsFile& weights) {
  std::vector<std::string> names = weights.class_names();
  return names.empty() ? names_of_data(options).classes : names;
}

/// Their file is no place where another data set has its names: one that was typed may have them without
/// (mnist).
std::vector<std::string> class_names_of_tensors(Options options, const WeightsFile& weights) {
  if (!options.is_typed("dataset")) return weights.class_names();
  options.data_dir.clear();
  return class_names_for(options, weights);
}

PredictionInput picture_input(const Options& options, std::span<const std::string> operands,
                              const WeightsFile& weights, Session& session) {
  std::vector<std::string> files;
  {
    const Activity::Work searching(session.activity.get(), "looking for pictures");
    files = data::find_pictures(operands);
  }
  const auto pictures = open_pictures(options, files, targets_for(options, weights));
  return {.samples = pictures,
          .pictures = pictures,
          .names = {class_names_for(options, weights), std::move(files)}};
}

}  // namespace

PredictionInput open_prediction_input(const CommandOptions& told, std::span<const std::string> operands,
                                      const WeightsFile& weights, Session& session) {
  const Options& options = told.options;
  if (!operands.empty()) return picture_input(options, operands, weights, session);
  if (names_tensors(told)) {
    return {.samples = data::open_inputs(options.data_dir, targets_for(options, weights),
                                         targets_each_token(wanted_input(options))),
            .names = {class_names_of_tensors(options, weights), {}}};
  }
  TestSet set = open_test_set(options, weights, session.activity.get());
  return {.samples = std::move(set.samples), .names = {std::move(set.class_names), {}}};
}

bool samples_are_tensors(const CommandOptions& told, std::span<const std::string> operands) {
  return operands.empty() && (names_tensors(told) || told.options.dataset == "tensors");
}

std::vector<std::int64_t> unreadable_pictures(const PredictionInput& input, Session& session) {
  if (input.pictures == nullptr) return {};
  std::vector<std::int64_t> all;
  const Json mine = input.pictures->unreadable();
  for (const std::string& text : session.communicator->all_gather(mine.dump())) {
    const auto of_rank = Json::parse(text).get<std::vector<std::int64_t>>();
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  }
  return all;
}

}  // namespace lockstep::runtime
