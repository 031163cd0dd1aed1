#include <filesystem>

#include "kernels/base/error.h"
#include "runtime/commands/commands.h"
#include "runtime/output/failure.h"
#include "runtime/run/stop_request.h"
#include "runtime/run/trainer.h"

namespace lockstep::runtime {
namespace {

/// Every rank waits for the others' last words, so that the one report has them all; one rank shows it.
[[noreturn]] void end_with_report(Session& session, const std::filesystem::path& run,
                                  const CommError& error) {
  const auto report = session.communicator->failure_report();
  if (!report) throw error;
  if (report->claim()) report_failure(*report, run);
  throw CommError(report->cause);
}

int train(const std::vector<std::string>& arguments,
          const std::function<TrainingTask(const Options&)>& make) {
  const Options options = parse_options(arguments);
  StopRequest stop_request;
  TrainingTask task = make(options);
  if (task.plugins.size() < options.plugins.size()) {
    throw UsageError("--plugin is for trainer: this program has its own model and data");
  }
  require_fitting(task, options);
  Session session = open_session(options);
  std::filesystem::path run;
  try {
    Trainer trainer(options, session, std::move(task), stop_request);
    run = trainer.folder();
    return static_cast<int>(trainer.run().stopped ? ExitCode::stopped : ExitCode::done);
  } catch (const CommError& error) {
    end_with_report(session, run, error);
  } catch (const UsageError&) {
    throw;  // all ranks found the same
  } catch (const std::exception& error) {
    session.communicator->abort(error.what());
    throw;
  }
}

}  // namespace

int train_command(const std::vector<std::string>& arguments) {
  return train(arguments, make_task);
}

int train_main(int argc, const char* const* argv, const std::function<TrainingTask(const Options&)>& make) {
  return run_reporting_errors([&] { return train({argv + 1, argv + argc}, make); });
}

}  // namespace lockstep::runtime
