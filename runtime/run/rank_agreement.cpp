#include "runtime/run/rank_agreement.h"

#include <fmt/format.h>

#include "data/dataset.h"
#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "kernels/base/number.h"
#include "runtime/machine/open_device.h"
#include "runtime/options/table.h"
#include "runtime/plan/signature.h"

namespace lockstep::runtime {
namespace {

std::string line_of(const std::string& name, const std::string& value) {
  return fmt::format("{} {}\n", name, value.empty() ? "not given" : value);
}

/// The same for equal names in one order; empty for none.
std::string digest_of(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  Sha256 hash;
  for (const std::string& name : names) hash.update(fmt::format("{} {}", name.size(), name));
  return hash.hex().substr(0, 16);
}

}  // namespace

void require_same_options(comm::Communicator& communicator, const Options& options,
                          const kernels::Device& device) {
  std::string text;
  for (const OptionEntry& entry : option_table()) {
    if (entry.decides == Decides::nothing) continue;
    // A GPU's launches may be asked to wait by a variable, too, which rules graphs out.
    const bool syncs = entry.name == "sync-launch" && !device.is_cpu() && syncs_launches(options);
    text += line_of("--" + entry.name, syncs ? "true" : entry.show(options));
  }
  require_equal(communicator, "the options", text);
}

void require_same_data(comm::Communicator& communicator, const TrainingTask& task, Activity* activity) {
  if (communicator.world().size == 1) return;
  // First: what else differs may come from a plugin that differs.
  std::string text = plugin_lines(task);
  text += line_of("samples of the training set", std::to_string(task.train_set->size()));
  text += line_of("contents of the training set", task.data_fingerprint);
  for (const auto& [name, digest] : digests_of(task)) text += line_of(name, digest);
  if (task.test_set != nullptr) {
    text += line_of("samples of the test set", std::to_string(task.test_set->size()));
    text += line_of("contents of the test set", data::fingerprint_of(*task.test_set, activity));
    text += line_of("bytes of the test set", data::content_digest_of(*task.test_set, activity));
    text += line_of("files of the test set", data::file_digest_of(*task.test_set, activity));
  }
  require_equal(communicator, "the data", text);
}

Settings digests_of(const TrainingTask& task) {
  return {{bytes_setting, task.content_digest},
          {files_setting, task.file_digest},
          {classes_setting, digest_of(task.class_names)},
          {tokens_setting, digest_of(task.token_names)},
          {tokenizer_setting, task.tokenizer_fingerprint}};
}

void require_equal_settings(comm::Communicator& communicator, const Settings& settings) {
  std::string text;
  for (const auto& [name, value] : settings) text += line_of(name, value);
  require_equal(communicator, "the settings", text);
}

std::string plugin_lines(const TrainingTask& task) {
  std::string lines;
  for (const std::string& plugin : task.plugins) lines += plugin + '\n';
  return lines;
}

std::vector<std::int64_t> gather_numbers(comm::Communicator& communicator, std::int64_t mine) {
  std::vector<std::int64_t> numbers;
  for (const std::string& text : communicator.all_gather(std::to_string(mine))) {
    const auto number = parse_number<std::int64_t>(text);
    if (!number) throw CommError(fmt::format("rank {} sent no number: '{}'", numbers.size(), text));
    numbers.push_back(*number);
  }
  return numbers;
}

std::int64_t rank0_number(comm::Communicator& communicator, std::int64_t mine) {
  return gather_numbers(communicator, mine).front();
}

}  // namespace lockstep::runtime
