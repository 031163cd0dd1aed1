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
#include "runtime/options/option_readers.h"
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
TrainingTask task_of_program(const MakeTask& make, const Options& options, const OptionReader& reader) {
  TrainingTask task = [&] {
    try {
      return make(options);
    } catch (...) {
      rethrow_as<UsageError>("this program's task");
    }
  }();
  const bool names_dataset = reader.reads(*find_entry("dataset"));
  if (task.dataset_name.empty() && !names_dataset) task.dataset_name = "own";
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
    require_fitting(task, options);
    return task;
  });
}

/// What users typed is judged first, without peers; data are opened in their company, so that these see who
/// takes long, and why.
int train(const Options& options, const std::function<OpenTask(const Options&)>& prepare) {
  mask_writes_of_others();
  require_read_by_optimizer(options);
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
  Options options = parse_options_for(training_options(), arguments);
  take_pretrained_config(options, first_weights(options), ModelUse::training);
  return train(options, prepare_task);
}

int train_main(int argc, const char* const* argv, const MakeTask& make,
               const std::vector<std::string>& reads) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const OptionReader reader = options_of_program(reads);
  if (asks_for_help(words)) {
    fmt::print(
        "usage: {} [options]\n       {} --version\n{}\nAll of these may stand in a file: --config FILE "
        "(ini).\n",
        argv[0], argv[0], options_help(&reader));
    return 0;
  }
  if (asks_for_version(words)) return print_version(), 0;
  const auto prepare = [&](const Options& options) {
    return [&make, &reader, options](Activity*) { return task_of_program(make, options, reader); };
  };
  return run_reporting_errors([&] { return train(parse_options_for(reader, words), prepare); });
}

}  // namespace lockstep::runtime
