#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "kernels/base/rethrow.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/checkpoint/run_access.h"
#include "runtime/checkpoint/saved_weights.h"
#include "runtime/commands/commands.h"
#include "runtime/commands/with_peers.h"
#include "runtime/options/typed_options.h"
#include "runtime/plugin/named_errors.h"
#include "runtime/run/kept_plans.h"
#include "runtime/run/rank_agreement.h"
#include "runtime/run/stop_request.h"
#include "runtime/run/task_agreement.h"
#include "runtime/run/trainer.h"

namespace lockstep::runtime {
namespace {

using OpenTask = std::function<TrainingTask(Activity* activity)>;
using MakeTask = std::function<TrainingTask(const Options&)>;

/// Of a person's own program, whose errors are not Lockstep's.
TrainingTask task_of_program(const MakeTask& make, const Options& options) {
  TrainingTask task = [&] {
    try {
      return make(options);
    } catch (...) {
      rethrow_as<UsageError>("this program's task");
    }
  }();
  take_label_smoothing(options, task.model);
  task.model.forward =
      with_named_errors(std::move(task.model.forward), fmt::format("model '{}'", task.model.name));
  task.train_set = with_named_errors(std::move(task.train_set), "the training set");
  task.test_set = with_named_errors(std::move(task.test_set), "the test set");
  return task;
}

TrainingTask opened(const OpenTask& open, const Options& options, Session& session) {
  return judged_on_all_ranks(*session.communicator, [&] {
    TrainingTask task = open(session.activity.get());
    if (task.plugins.size() < options.plugins.size()) {
      throw UsageError("--plugin is for trainer: this program has its own model and data");
    }
    require_fitting(task, options);
    return task;
  });
}

/// What users typed is judged first, without peers; data are opened in their company, so that these see who
/// takes long, and why.
int train(const std::vector<std::string>& arguments, const std::function<OpenTask(const Options&)>& prepare) {
  mask_writes_of_others();
  Options options = parse_options(arguments);
  require_read_by_optimizer(options);
  require_none_of_predict(options);
  take_pretrained_config(options, first_weights(options), ModelUse::training);
  StopRequest stop_request;
  const OpenTask open = prepare(options);
  Session session = open_session(options);
  keep_library_plans(session);
  return with_peers(session, options.timeout, [&](const SetRun& set_run) {
    require_same_options(*session.communicator, options, *session.device);
    TrainingTask task = opened(open, options, session);
    task.data_fingerprint = data::fingerprint_of(*task.train_set, session.activity.get());
    task.content_digest = data::content_digest_of(*task.train_set, session.activity.get());
    task.file_digest = data::file_digest_of(*task.train_set, session.activity.get());
    require_same_data(*session.communicator, task, session.activity.get());
    Trainer trainer(options, session, std::move(task), stop_request);
    set_run(trainer.folder());
    return trainer.run().stopped ? ExitCode::stopped : ExitCode::done;
  });
}

}  // namespace

int train_command(const std::vector<std::string>& arguments) {
  return train(arguments, prepare_task);
}

bool asks_for_help(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) { return word == "--help" || word == "-h"; });
}

int train_main(int argc, const char* const* argv, const MakeTask& make) {
  const auto prepare = [&make](const Options& options) {
    return [&make, options](Activity*) { return task_of_program(make, options); };
  };
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (asks_for_help(words)) {
    fmt::print("usage: {} [options]\n{}", argv[0], options_help());
    return 0;
  }
  return run_reporting_errors([&] { return train(words, prepare); });
}

}  // namespace lockstep::runtime
