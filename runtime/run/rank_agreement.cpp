#include "runtime/run/rank_agreement.h"

#include <fmt/format.h>

#include "runtime/options/table.h"
#include "runtime/plan/signature.h"

namespace lockstep::runtime {
namespace {

std::string line_of(const std::string& name, const std::string& value) {
  return fmt::format("{} {}\n", name, value.empty() ? "not given" : value);
}

}  // namespace

void require_same_options(comm::Communicator& communicator, const Options& options) {
  std::string text;
  for (const OptionEntry& entry : option_table()) {
    if (entry.decides != Decides::nothing) text += line_of("--" + entry.name, entry.show(options));
  }
  require_equal(communicator, "the options", text);
}

void require_same_task(comm::Communicator& communicator, const TrainingTask& task, const Settings& settings,
                       const data::Dataset* test_set, Activity* activity) {
  if (communicator.world().size == 1) return;
  // First: what else differs may come from a plugin that differs.
  std::string text = plugin_lines(task);
  for (const auto& [name, value] : settings) text += line_of(name, value);
  if (test_set != nullptr) {
    text += line_of("samples of the test set", std::to_string(test_set->size()));
    text += line_of("contents of the test set", data::fingerprint_of(*test_set, activity));
  }
  require_equal(communicator, "settings and data", text);
}

std::string plugin_lines(const TrainingTask& task) {
  std::string lines;
  for (const std::string& plugin : task.plugins) lines += plugin + '\n';
  return lines;
}

}  // namespace lockstep::runtime
