#include "kernels/base/error.h"
#include "runtime/commands/commands.h"
#include "runtime/trainer.h"

namespace lockstep::runtime {
namespace {

int train(const std::vector<std::string>& arguments,
          const std::function<TrainingTask(const Options&)>& make) {
  const Options options = parse_options(arguments);
  TrainingTask task = make(options);
  Session session = open_session(options);
  const Summary summary = Trainer(options, session, std::move(task)).run();
  return static_cast<int>(summary.stopped ? ExitCode::stopped : ExitCode::done);
}

}  // namespace

int train_command(const std::vector<std::string>& arguments) {
  return train(arguments, make_task);
}

int train_main(int argc, const char* const* argv, const std::function<TrainingTask(const Options&)>& make) {
  return run_reporting_errors([&] { return train({argv + 1, argv + argc}, make); });
}

}  // namespace lockstep::runtime
