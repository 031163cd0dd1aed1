#pragma once

#include <functional>

#include "data/dataset.h"
#include "kernels/base/export.h"
#include "model/model.h"
#include "runtime/options/options.h"

namespace lockstep::runtime {

/// A model and its data. A user's own program fills it in; `trainer` does so from its options.
struct TrainingTask {
  model::Model model;
  model::InputSpec input;
  data::DatasetPtr train_set;
  data::DatasetPtr test_set;           ///< may be null: nothing is evaluated
  std::vector<std::string> plugins{};  ///< which were loaded, a line each: all ranks must have the same
};

/// Of the samples, for reports: "mnist (/data/mnist)".
std::string source_of(const Options& options);

/// UsageError when the samples have another dtype or size than the model's inputs and targets, and when there
/// are fewer than --eval-samples.
void require_fitting(const TrainingTask& task, const Options& options);

/// The model of the zoo and the data set that the options name.
LOCKSTEP_API TrainingTask make_task(const Options& options);

/// The same in two parts: this one knows the names and what they want, and what it gives opens the files,
/// and tells `activity` what takes long.
std::function<TrainingTask(Activity* activity)> prepare_task(const Options& options);

/// The same without opening a file: for `trainer plan`. The data sets are null.
TrainingTask make_task_without_data(const Options& options);

}  // namespace lockstep::runtime
