#include "runtime/task.h"

#include "kernels/base/error.h"

namespace lockstep::runtime {
namespace {

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

TrainingTask task_for(const Options& options, const data::SampleSpec& spec) {
  const model::ZooEntry& entry = model::find_model(options.model, options.model_args);
  const model::InputSpec input{
      .shape = spec.input_shape, .num_classes = spec.num_classes, .target_shape = spec.target_shape};
  TrainingTask task{.model = entry.make(options.model_args, input), .input = input};
  task.model.label_smoothing = static_cast<float>(options.label_smoothing);
  return task;
}

data::DatasetOptions resolved_dataset(const Options& options) {
  if (options.model.empty()) throw UsageError("--model NAME is needed; `trainer models` lists them");
  const model::ZooEntry& entry = model::find_model(options.model, options.model_args);
  return dataset_options(options, entry.wants(options.model_args));
}

}  // namespace

TrainingTask make_task(const Options& options) {
  const data::DatasetOptions dataset = resolved_dataset(options);
  const data::DatasetPtr train_set = data::open_dataset(dataset, data::Split::train);
  TrainingTask task = task_for(options, train_set->spec());
  task.train_set = train_set;
  if (options.eval_every > 0) task.test_set = data::open_dataset(dataset, data::Split::test);
  return task;
}

TrainingTask make_task_without_data(const Options& options) {
  return task_for(options, data::dataset_spec(resolved_dataset(options)));
}

}  // namespace lockstep::runtime
