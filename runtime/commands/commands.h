#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/export.h"
#include "runtime/run/task.h"

namespace lockstep::runtime {

/// The commands of `trainer`, each given its words without program and command; they return the exit code.
/// The library's own: programs call one of the two mains below.
int train_command(const std::vector<std::string>& arguments);
int eval_command(const std::vector<std::string>& arguments);
int predict_command(const std::vector<std::string>& arguments);
int plan_command(const std::vector<std::string>& arguments);
int sampler_command(const std::vector<std::string>& arguments);
int devices_command(const std::vector<std::string>& arguments);
int models_command(const std::vector<std::string>& arguments);
int datasets_command(const std::vector<std::string>& arguments);
int tokenize_command(const std::vector<std::string>& arguments);  ///< `trainer datasets tokenize`

/// How those with options of their own are called; `trainer --help` and their errors say it.
constexpr std::string_view sampler_usage =
    "trainer sampler --samples N [--ranks R] [--rank r] [--seed S] [--epoch E] [--no-shuffle] [--drop-last]";
constexpr std::string_view tokenize_usage =
    "trainer datasets tokenize --input FILE.txt|DIR --output FILE.bin|DIR [--tokenizer PATH|characters]";

/// The program `trainer`.
LOCKSTEP_API int trainer_main(int argc, const char* const* argv);

/// An exception as users are told it: the words of its line, and the exit code.
struct ToldError {
  std::string message;
  ExitCode code;
};
ToldError told(const std::exception& error);

/// Writes an error to TORCHELASTIC_ERROR_FILE, as torchrun's workers do, so that the agent's report has the
/// cause; so is a stop, which an agent may not learn by the exit code.
void write_error_file(const std::string& message, ExitCode code);

/// Prints an error's line and writes it to TORCHELASTIC_ERROR_FILE; the exit code.
int report_error(const std::string& message, ExitCode code);

/// Runs `command`; turns an error into its line on standard error, TORCHELASTIC_ERROR_FILE and the exit code.
int run_reporting_errors(const std::function<int()>& command);

/// --help or -h is among the words: `parse_options` knows neither, as each program has a help of its own.
LOCKSTEP_API bool asks_for_help(const std::vector<std::string>& words);

/// The same of --version, and its answer.
bool asks_for_version(const std::vector<std::string>& words);
void print_version();

/// The whole of a person's own trainer: options from the command line, `make_task` gives model and data for
/// them. Options of trainer's models and data (`options/option_readers`) are refused, but for those that
/// `make_task` `reads`: {"data-dir", "samples"}.
LOCKSTEP_API int train_main(int argc, const char* const* argv,
                            const std::function<TrainingTask(const Options&)>& make_task,
                            const std::vector<std::string>& reads = {});

}  // namespace lockstep::runtime
