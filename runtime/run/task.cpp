#include "runtime/run/task.h"

#include <memory>

#include <fmt/format.h>

#include "data/pictures/picture_files.h"
#include "data/pictures/shards.h"
#include "data/text/vocabulary.h"
#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "runtime/checkpoint/saved_weights.h"
#include "runtime/options/typed_options.h"
#include "runtime/plugin/entries.h"
#include "runtime/plugin/load_plugins.h"
#include "runtime/run/task_agreement.h"
#include "runtime/run/task_names.h"
#include "runtime/run/text_vocabulary.h"
#include "runtime/weights/weights_file.h"

namespace lockstep::runtime {
namespace {

const model::ZooEntry& find_model(const Options& options, const Plugins& plugins) {
  return model::find_model(plugins.registry.models(), options.model, options.model_args);
}

data::DatasetOptions dataset_options(const Options& options, const model::InputSpec& wants,
                                     const Shape& states) {
  const std::int64_t given = given_vocabulary(options, wants);
  const std::int64_t vocab_size = given > 0 ? given : wants.vocab_size;
  const std::int64_t classes = predicts_tokens(options, wants) ? vocab_size : wants.num_classes;
  const std::int64_t wanted_length = wants_tokens(wants) ? wants.shape[0] : 0;
  return {.name = options.dataset,
          .data_dir = options.data_dir,
          .samples = options.samples,
          .image_shape = options.image_shape.rank() > 0 ? options.image_shape : wants.shape,
          .num_classes = options.num_classes >= 0 ? options.num_classes : classes,
          .target_shape = wants.target_shape.rank() > 0 ? wants.target_shape : Shape{1},
          .seq_len = options.seq_len > 0 ? options.seq_len : wanted_length,
          .vocab_size = vocab_size,
          .vocab_size_given = given > 0,
          .vocab_size_file = vocabulary_file(options),
          .per_token = targets_each_token(wants),
          .classes_are_tokens = predicts_tokens(options, wants),
          .states_shape = states,
          .seed = options.seed,
          .transform = options.transform,
          .eval_transform = options.eval_transform,
          .data_are_new = options.data_are_new,
          .skip_corrupt = options.corrupt_samples == "skip",
          .download = options.download,
          .shard_indexes = std::make_shared<data::ShardIndexes>(),
          .windows = options.windows,
          .token_dtype = options.token_dtype,
          .tokenizer = options.tokenizer,
          .target_file = options.target_file,
          .texts = std::make_shared<data::OpenedTexts>()};
}

bool is_built_in(const Plugins& plugins, const data::DatasetOptions& dataset) {
  return plugins.registry.plugin_of(EntryKind::dataset, dataset.name).empty();
}

/// What a plugin's data set does with its pictures where nothing else is asked for: when options were read,
/// only those of built-in sets were known.
void take_transforms(const Plugins& plugins, data::DatasetOptions& dataset) {
  if (is_built_in(plugins, dataset)) return;
  const auto& own = data::find_dataset(plugins.registry.datasets(), dataset.name).transforms;
  if (own && dataset.transform.empty()) dataset.transform = own->train;
  if (own && dataset.eval_transform.empty()) dataset.eval_transform = own->eval;
}

TrainingTask task_for(const Options& options, const Plugins& plugins, const data::SampleSpec& spec) {
  const model::ZooEntry& entry = find_model(options, plugins);
  const model::InputSpec wants = wants_of(plugins.registry, entry, options.model_args);
  require_agreement(options, wants, spec);
  require_fitting_states(options, states_of(plugins.registry, entry, options.model_args), spec.states_shape);
  model::InputSpec input{.shape = spec.input_shape,
                         .num_classes = spec.num_classes,
                         .target_shape = spec.target_shape,
                         .dtype = spec.input_dtype,
                         .vocab_size = spec.vocab_size,
                         .source_length = spec.source_length,
                         .states = spec.states_shape,
                         .packed = spec.packed};
  take_vocabulary(options, wants, input);
  TrainingTask task{.model = make_model(plugins.registry, entry, options.model_args, input), .input = input};
  take_label_smoothing(options, task.model);
  task.plugins = plugins.identities;
  task.pictures = spec.pictures;
  return task;
}

void require_downloadable(const Options& options, const Plugins& plugins) {
  const auto& sets = plugins.registry.datasets();
  if (data::find_dataset(sets, options.dataset).can_download) return;
  std::string names;
  for (const data::DatasetEntry& entry : sets) {
    if (entry.can_download) names += (names.empty() ? "" : ", ") + entry.name;
  }
  throw UsageError(fmt::format("--download: {} is not among the data sets that can be fetched: {}",
                               options.dataset, names));
}

data::DatasetOptions resolved_dataset(const Options& options, const Plugins& plugins) {
  if (options.model.empty()) throw UsageError("--model NAME is needed; `trainer models` lists them");
  if (options.download) require_downloadable(options, plugins);
  const model::ZooEntry& entry = find_model(options, plugins);
  const model::InputSpec wants = wants_of(plugins.registry, entry, options.model_args);
  require_known_kind(options, wants, entry);
  data::DatasetOptions dataset =
      dataset_options(options, wants, states_of(plugins.registry, entry, options.model_args));
  take_transforms(plugins, dataset);
  return dataset;
}

/// Those of --init-from; a run that goes on without that file has them in its checkpoints and config.ini.
void take_first_numbers_of_tokens(const Options& options, const Registry& registry,
                                  const data::DatasetEntry& entry, data::DatasetOptions& dataset) {
  const std::filesystem::path named = first_weights(options);
  if (entry.token_names == nullptr || named.empty()) return;
  const SavedWeights saved = find_saved_weights(named);
  take_numbers_of_tokens(WeightsFile(saved.weights), saved.config, TextUse::training, registry, dataset);
}

/// What is kept of the tokenizer; a plugin's data set may have one that we do not read.
void take_tokenizer(const Plugins& plugins, const data::DatasetOptions& dataset, TrainingTask& task) {
  task.tokenizer = dataset.tokenizer;
  if (!is_built_in(plugins, dataset) || !data::has_tokenizer(dataset)) return;
  const data::TokenizerPtr tokenizer = data::open_tokenizer(dataset.tokenizer);
  task.tokenizer_fingerprint = data::fingerprint_of(*tokenizer);
  task.tokenizer_rules = tokenizer->rules();
  task.end_of_text = data::end_of_text(*tokenizer);
}

KeptNames names_of(const Plugins& plugins, const data::DatasetEntry& entry,
                   const data::DatasetOptions& dataset) {
  return {.classes = class_names_of(plugins.registry, entry, dataset),
          .tokens = token_names_of(plugins.registry, entry, dataset)};
}

/// What the options name, found, and what they want of the data set. UsageError for a model that is missing
/// or unknown, and by `entry` for such a data set.
struct NamedTask {
  explicit NamedTask(const Options& options)
      : plugins(load_plugins(options.plugins)), dataset(resolved_dataset(options, plugins)) {}

  const data::DatasetEntry& entry() const {
    return data::find_dataset(plugins.registry.datasets(), dataset.name);
  }

  Plugins plugins;
  data::DatasetOptions dataset;
};

data::DatasetPtr opened(const Plugins& plugins, const data::DatasetEntry& entry,
                        const data::DatasetOptions& dataset, data::Split split) {
  data::DatasetPtr samples = open_samples(plugins.registry, entry, dataset, split);
  if (samples == nullptr)
    throw UsageError(
        fmt::format("data set '{}' opens nothing: its function open gave no samples", entry.name));
  return samples;
}

TrainingTask open_task(const Options& options, const NamedTask& named, Activity* activity) {
  const Plugins& plugins = named.plugins;
  const data::DatasetEntry& entry = named.entry();
  data::DatasetOptions dataset = named.dataset;
  dataset.activity = activity;
  const Activity::Work opening(activity, "opening the data set " + source_of(options));
  take_first_numbers_of_tokens(options, plugins.registry, entry, dataset);
  const data::DatasetPtr train_set = opened(plugins, entry, dataset, data::Split::train);
  TrainingTask task = task_for(options, plugins, train_set->spec());
  task.train_set = train_set;
  if (options.eval_samples > 0) dataset.samples = options.eval_samples;
  KeptNames names = names_of(plugins, entry, dataset);
  task.class_names = std::move(names.classes);
  task.token_names = std::move(names.tokens);
  take_tokenizer(plugins, dataset, task);
  if (options.eval_every == 0) return task;
  task.test_set = open_samples(plugins.registry, entry, dataset, data::Split::test);
  task.note = note_of(plugins.registry, entry, dataset);
  return task;
}

}  // namespace

void require_fitting(const TrainingTask& task, const Options& options) {
  if (task.train_set != nullptr) require_counts("training set", *task.train_set, 1);
  if (task.test_set != nullptr) require_counts("test set", *task.test_set, 0);
  for (const auto* set : {&task.train_set, &task.test_set}) {
    if (*set != nullptr) require_same_types(task.input, (*set)->spec());
  }
  if (task.test_set != nullptr && options.eval_samples > task.test_set->size()) {
    throw UsageError(
        fmt::format("--eval-samples {}: the test set has {}", options.eval_samples, task.test_set->size()));
  }
}

namespace {

/// UsageError before files are looked for: an unknown data set, or one of pictures for a model of tokens, as
/// it is meant where none was typed.
void require_same_kind(const Options& options, const NamedTask& named) {
  const data::DatasetEntry& dataset = named.entry();
  const model::ZooEntry& entry = find_model(options, named.plugins);
  if (model::find_entry(model::zoo(), entry.name) == nullptr) return;  // a plugin's may take both
  if (wants_tokens(wants_of(named.plugins.registry, entry, options.model_args)))
    require_no_pictures(options, dataset);
}

}  // namespace

std::function<TrainingTask(Activity*)> prepare_task(const Options& options) {
  require_read_by_dataset(options);
  const auto named = std::make_shared<const NamedTask>(options);
  require_same_kind(options, *named);
  return [=](Activity* activity) { return open_task(options, *named, activity); };
}

TrainingTask make_task(const Options& options) {
  return prepare_task(options)(nullptr);
}

TestSet open_test_set(const Options& options, const WeightsFile& weights, Activity* activity) {
  const NamedTask named(options);
  require_same_kind(options, named);
  const data::DatasetEntry& entry = named.entry();
  data::DatasetOptions dataset = named.dataset;
  dataset.activity = activity;
  const Activity::Work opening(activity, "opening the data set " + source_of(options));
  dataset.class_names = weights.class_names();
  if (entry.token_names != nullptr)
    take_numbers_of_tokens(weights, {}, TextUse::scores, named.plugins.registry, dataset);
  if (options.eval_samples > 0) dataset.samples = options.eval_samples;
  TestSet set{.samples = opened(named.plugins, entry, dataset, data::Split::test),
              .class_names = dataset.class_names};
  if (set.class_names.empty()) set.class_names = names_of(named.plugins, entry, dataset).classes;
  return set;
}

std::shared_ptr<const data::PictureFiles> open_pictures(const Options& options,
                                                        std::vector<std::string> files,
                                                        const data::SampleSpec& targets) {
  const NamedTask named(options);
  const auto& pictures = named.entry().pictures;
  if (!pictures) {
    throw UsageError(
        fmt::format("{}: data set {} has no pictures; say what to do with them by --dataset image-folder "
                    "--eval-transform LIST",
                    files.front(), named.dataset.name));
  }
  return std::make_shared<const data::PictureFiles>(std::move(files), *pictures, targets, named.dataset);
}

TrainingTask make_task_for(const Options& options, const data::SampleSpec& spec) {
  return task_for(options, NamedTask(options).plugins, spec);
}

model::InputSpec wanted_input(const Options& options) {
  const Plugins plugins = load_plugins(options.plugins);
  return wants_of(plugins.registry, find_model(options, plugins), options.model_args);
}

Shape wanted_states(const Options& options) {
  const Plugins plugins = load_plugins(options.plugins);
  return states_of(plugins.registry, find_model(options, plugins), options.model_args);
}

bool numbers_classes_by_name(const Options& options) {
  const Plugins plugins = load_plugins(options.plugins);
  return data::find_dataset(plugins.registry.datasets(), options.dataset).numbers_classes_by_name;
}

KeptNames names_of_data(const Options& options) {
  const Plugins plugins = load_plugins(options.plugins);
  const data::DatasetEntry& entry = data::find_dataset(plugins.registry.datasets(), options.dataset);
  return names_of(plugins, entry, resolved_dataset(options, plugins));
}

TrainingTask make_task_without_data(const Options& options) {
  require_read_by_dataset(options);
  const NamedTask named(options);
  const Plugins& plugins = named.plugins;
  const data::DatasetEntry& entry = named.entry();
  data::DatasetOptions dataset = named.dataset;
  take_first_numbers_of_tokens(options, plugins.registry, entry, dataset);
  return task_for(options, plugins, spec_of(plugins.registry, entry, dataset));
}

}  // namespace lockstep::runtime
