#include "runtime/options/typed_options.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "data/pictures/transforms.h"
#include "kernels/base/error.h"
#include "runtime/options/option_readers.h"
#include "runtime/options/settings.h"
#include "runtime/options/table.h"
#include "runtime/options/values.h"

namespace lockstep::runtime {
namespace {

/// An option that only some read of what another option chooses.
struct Readers {
  std::string option;
  std::string chosen_by;
  std::vector<std::string> names;
};

const std::vector<Readers>& readers() {
  static const std::vector<Readers> rows{
      {"momentum", "optimizer", {"sgd"}},
      {"dampening", "optimizer", {"sgd"}},
      {"nesterov", "optimizer", {"sgd"}},
      {"betas", "optimizer", {"adam", "adamw"}},
      {"eps", "optimizer", {"adam", "adamw"}},
      {"amsgrad", "optimizer", {"adam", "adamw"}},
      {"lr-min", "lr-schedule", {"step", "cosine", "linear"}},
      {"lr-step-epochs", "lr-schedule", {"step"}},
      {"lr-gamma", "lr-schedule", {"step"}},
      {"data-dir",
       "dataset",
       {"fashion-mnist", "mnist", "cifar10", "image-folder", "shards", "text", "tokens", "labelled-text",
        "parallel-text", "tensors"}},
      {"corrupt-samples", "dataset", {"image-folder", "shards", "fashion-mnist", "mnist", "cifar10"}},
      {"seq-len", "dataset", {"synthetic", "text", "tokens", "labelled-text", "parallel-text"}},
      {"samples", "dataset", {"synthetic"}},
      {"image-shape", "dataset", {"synthetic"}},
      {"windows", "dataset", {"text", "tokens"}},
      {"token-dtype", "dataset", {"tokens"}},
      // With tokens and tensors it is kept for `trainer predict --prompt`.
      {"tokenizer", "dataset", {"text", "tokens", "labelled-text", "parallel-text", "tensors"}},
      {"target-file", "dataset", {"parallel-text"}},
  };
  return rows;
}

bool asks_for_nothing(const OptionEntry& option, const Options& options) {
  const std::string shown = option.show(options);
  return option.is_switch() && (shown.empty() || !parse_switch(shown));
}

void require_read_by(const std::string& chooser, const Options& options) {
  const std::string chosen = find_entry(chooser)->show(options);
  for (const Readers& row : readers()) {
    if (row.chosen_by != chooser || !options.is_typed(row.option)) continue;
    if (std::ranges::find(row.names, chosen) != row.names.end()) continue;
    if (asks_for_nothing(*find_entry(row.option), options)) continue;
    throw UsageError(fmt::format("--{} is not read by --{} {}: leave it out, or give --{} {}", row.option,
                                 chooser, chosen, chooser, fmt::join(row.names, " or ")));
  }
}

bool is_built_in(const std::string& dataset) {
  return std::ranges::find(data::datasets(), dataset, &data::DatasetEntry::name) != data::datasets().end();
}

bool normalise_alike(const data::Transform& a, const data::Transform& b) {
  const auto mean_and_deviation = [](const data::Transform& transform, std::size_t channel) {
    const auto scales = transform.scales();
    if (scales.empty()) return std::pair(0.0F, 1.0F);
    const data::PixelScale& scale = scales[scales.size() == 1 ? 0 : channel];
    return std::pair(scale.mean, scale.deviation);
  };
  const std::size_t channels = std::max(a.scales().size(), b.scales().size());
  for (std::size_t channel = 0; channel < channels; ++channel) {
    if (mean_and_deviation(a, channel) != mean_and_deviation(b, channel)) return false;
  }
  return true;
}

}  // namespace

void require_read_by_optimizer(const Options& options) {
  require_read_by("optimizer", options);
  if (options.is_typed("dampening") && options.optimizer.dampening != 0 && options.optimizer.momentum == 0)
    throw UsageError("--dampening is of momentum: give --momentum above 0, or leave it out");
  require_read_by("lr-schedule", options);
}

void require_read_by_dataset(const Options& options) {
  if (is_built_in(options.dataset)) require_read_by("dataset", options);
}

void require_read_by_command(const OptionReader& command, const Options& options) {
  for (const std::string& typed : options.on_command_line) {
    const OptionEntry* const entry = find_entry(typed);
    if (entry == nullptr || command.reads(*entry) || asks_for_nothing(*entry, options)) continue;
    throw UsageError(fmt::format("--{} is not read by {}{}: leave it out", typed, command.name,
                                 command.why.empty() ? others_that_read(*entry) : command.why));
  }
}

void require_fit_for_config_file(const Options& options) {
  for (const OptionEntry& entry : option_table()) {
    if (fits_config_file(entry.show(options))) continue;
    throw UsageError(fmt::format(
        "--{}: no line break, control character or blank at an end can stand in config.ini: leave it out",
        entry.name));
  }
}

void require_one_batch_size(const Options& options) {
  if (options.global_batch == 0 || !options.is_typed("batch-size")) return;
  const std::string size = find_entry("batch-size")->show(options);
  // Elsewhere both mean micro-batches of the one that add up to the other.
  const std::string hint =
      options.batch_size == automatic_batch
          ? "leave one of them out"
          : fmt::format(
                "leave it out; micro-batches of {} are --accumulate-steps N, where N x {} x ranks = {}", size,
                size, options.global_batch);
  throw UsageError(
      fmt::format("--batch-size {} beside --global-batch {}: {}", size, options.global_batch, hint));
}

void require_same_scale(const Options& options) {
  const bool trains = options.is_typed("transform");
  if (trains == options.is_typed("eval-transform") || !is_built_in(options.dataset)) return;
  if (normalise_alike(data::Transform(options.transform), data::Transform(options.eval_transform))) return;
  const auto shown = [](const std::string& option, const std::string& list) {
    return fmt::format("--{} {}", option, list.empty() ? "none" : list);
  };
  const std::string train = shown("transform", options.transform);
  const std::string eval = shown("eval-transform", options.eval_transform);
  throw UsageError(fmt::format("{} normalises otherwise than {}, which was not given: give both",
                               trains ? train : eval, trains ? eval : train));
}

}  // namespace lockstep::runtime
