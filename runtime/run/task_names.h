#pragma once

#include <string>

#include "runtime/run/task.h"
#include "runtime/weights/weights_file.h"

/// What files and reports call a task's model, data and classes.
namespace lockstep::runtime {

/// What is kept with its weights.
KeptNames kept_names(const TrainingTask& task);

/// Of the samples: "mnist (/data/mnist)".
std::string source_of(const Options& options);

/// The options with the names that records give model and data, where these are a program's own.
Options recorded(const Options& options, const TrainingTask& task);

}  // namespace lockstep::runtime
