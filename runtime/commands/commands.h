#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/run/task.h"

namespace lockstep::runtime {

/// The commands of `trainer`, each given its words without program and command; they return the exit code.
int train_command(const std::vector<std::string>& arguments);
int plan_command(const std::vector<std::string>& arguments);
int sampler_command(const std::vector<std::string>& arguments);
int devices_command(const std::vector<std::string>& arguments);
int models_command(const std::vector<std::string>& arguments);
int datasets_command(const std::vector<std::string>& arguments);

/// Runs `command`; turns an error into its line on standard error, TORCHELASTIC_ERROR_FILE and the exit code.
int run_reporting_errors(const std::function<int()>& command);

/// The whole of a person's own trainer: options from the command line, `make_task` gives model and data for
/// them.
int train_main(int argc, const char* const* argv,
               const std::function<TrainingTask(const Options&)>& make_task);

}  // namespace lockstep::runtime
