#include "runtime/run/task.h"

#include <memory>

#include <fmt/format.h>

#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "runtime/plugin/load_plugins.h"

namespace lockstep::runtime {
namespace {

const model::ZooEntry& find_model(const Options& options, const Plugins& plugins) {
  return model::find_model(plugins.registry.models(), options.model, options.model_args);
}

data::DatasetOptions dataset_options(const Options& options, const model::InputSpec& wants) {
  const bool regression = options.num_classes == 0 || (options.num_classes < 0 && wants.num_classes == 0);
  return {.name = options.dataset,
          .data_dir = options.data_dir,
          .samples = options.samples,
          .image_shape = options.image_shape.rank() > 0 ? options.image_shape : wants.shape,
          .num_classes = regression                ? 0
                         : options.num_classes > 0 ? options.num_classes
                                                   : wants.num_classes,
          .target_shape = wants.target_shape.rank() > 0 ? wants.target_shape : Shape{1},
          .seed = options.seed};
}

/// A graph with an op that nobody registered is refused when it is built.
void require_registered_ops(model::Model& model, const std::vector<OpEntry>& ops) {
  model.forward = [forward = std::move(model.forward), ops](model::Tensor x) {
    const model::Tensor output = forward(x);
    require_registered(output.graph(), ops);
    return output;
  };
}

TrainingTask task_for(const Options& options, const Plugins& plugins, const data::SampleSpec& spec) {
  const model::ZooEntry& entry = find_model(options, plugins);
  const model::InputSpec input{.shape = spec.input_shape,
                               .num_classes = spec.num_classes,
                               .target_shape = spec.target_shape,
                               .dtype = spec.input_dtype};
  TrainingTask task{.model = entry.make(options.model_args, input), .input = input};
  task.model.label_smoothing = static_cast<float>(options.label_smoothing);
  task.plugins = plugins.identities;
  if (!task.plugins.empty()) require_registered_ops(task.model, plugins.registry.ops());
  return task;
}

data::DatasetOptions resolved_dataset(const Options& options, const Plugins& plugins) {
  if (options.model.empty()) throw UsageError("--model NAME is needed; `trainer models` lists them");
  return dataset_options(options, find_model(options, plugins).wants(options.model_args));
}

std::string describe(DType dtype, const Shape& shape) {
  return fmt::format("{} ({})", name_of(dtype), shape.str());
}

void require_fitting(const model::InputSpec& input, const data::SampleSpec& spec) {
  if (spec.input_dtype != input.dtype || spec.input_bytes() != bytes_of(input.dtype, input.shape)) {
    throw UsageError(fmt::format("the data set gives inputs of {}, the model takes {}",
                                 describe(spec.input_dtype, spec.input_shape),
                                 describe(input.dtype, input.shape)));
  }
  const bool classes = input.num_classes > 0;
  const DType dtype = classes ? DType::i64 : DType::f32;
  const Shape shape = classes ? Shape{} : input.target_shape;
  if (spec.target_dtype != dtype || spec.target_bytes() != bytes_of(dtype, shape)) {
    throw UsageError(fmt::format("the data set gives targets of {}, the model takes {}",
                                 describe(spec.target_dtype, spec.target_shape), describe(dtype, shape)));
  }
}

}  // namespace

std::string source_of(const Options& options) {
  if (options.data_dir.empty()) return options.dataset;
  return fmt::format("{} ({})", options.dataset, options.data_dir.string());
}

void require_fitting(const TrainingTask& task, const Options& options) {
  for (const auto* set : {&task.train_set, &task.test_set}) {
    if (*set != nullptr) require_fitting(task.input, (*set)->spec());
  }
  if (task.test_set != nullptr && options.eval_samples > task.test_set->size()) {
    throw UsageError(
        fmt::format("--eval-samples {}: the test set has {}", options.eval_samples, task.test_set->size()));
  }
}

namespace {

TrainingTask open_task(const Options& options, const Plugins& plugins, data::DatasetOptions dataset,
                       Activity* activity) {
  dataset.activity = activity;
  const Activity::Work opening(activity, "opening the data set " + source_of(options));
  const data::DatasetEntry& entry = data::find_dataset(plugins.registry.datasets(), dataset.name);
  const data::DatasetPtr train_set = entry.open(dataset, data::Split::train);
  TrainingTask task = task_for(options, plugins, train_set->spec());
  task.train_set = train_set;
  if (options.eval_samples > 0) dataset.samples = options.eval_samples;
  if (options.eval_every > 0) task.test_set = entry.open(dataset, data::Split::test);
  return task;
}

}  // namespace

std::function<TrainingTask(Activity*)> prepare_task(const Options& options) {
  const auto plugins = std::make_shared<const Plugins>(load_plugins(options.plugins));
  const data::DatasetOptions dataset = resolved_dataset(options, *plugins);
  data::find_dataset(plugins->registry.datasets(), dataset.name);
  return [=](Activity* activity) { return open_task(options, *plugins, dataset, activity); };
}

TrainingTask make_task(const Options& options) {
  return prepare_task(options)(nullptr);
}

TrainingTask make_task_without_data(const Options& options) {
  const Plugins plugins = load_plugins(options.plugins);
  const data::DatasetOptions dataset = resolved_dataset(options, plugins);
  const data::DatasetEntry& entry = data::find_dataset(plugins.registry.datasets(), dataset.name);
  return task_for(options, plugins, entry.spec(dataset));
}

}  // namespace lockstep::runtime
