#include "runtime/options/options.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "runtime/options/option_readers.h"
#include "runtime/options/settings.h"
#include "runtime/options/table.h"
#include "runtime/options/typed_options.h"
#include "runtime/options/values.h"
#include "runtime/options/words.h"

namespace lockstep::runtime {
namespace {

void refuse_future(const FutureOption& option, const std::string& text) {
  const bool neutral =
      option.is_switch ? parse_switch(text) == parse_switch(option.neutral) : text == option.neutral;
  if (neutral && !option.neutral.empty()) return;
  const std::string hint = option.neutral.empty() ? "leave it out" : "what is: " + option.neutral;
  throw UsageError(fmt::format("--{} {} is not in this version; {}", option.name, text, hint));
}

void apply_settings(Options& options, const TypedSettings& settings) {
  for (const TypedSetting& setting : settings) {
    try {
      if (const OptionEntry* entry = find_entry(setting.name)) {
        entry->set(options, setting.text);
        continue;
      }
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--{}: {}", setting.name, error.what()));
    }
    refuse_future(*find_future(setting.name), setting.text);
  }
}

/// Our names for the words of the field. A plugin, or a program whose run this is, may have what is only a
/// hint's word here.
void name_model_and_dataset(Options& options) {
  const auto name = [&](std::string& typed, const char* option, std::span<const FieldWord> words,
                        std::span<const std::string> names) {
    try {
      typed = our_name(typed, words, names);
    } catch (const UsageError& hint) {
      if (options.plugins.empty() && options.is_typed(option))
        throw UsageError(fmt::format("--{}: {}", option, hint.what()));
    }
  };
  name(options.model, "model", model_words(), model::model_names(model::zoo()));
  name(options.dataset, "dataset", dataset_words(), data::dataset_names(data::datasets()));
}

std::string name_of_argument(const std::string& typed, const std::vector<std::string>& declared) {
  if (std::ranges::find(declared, typed) != declared.end()) return typed;
  try {
    const std::string ours = our_name(typed, model_argument_words(), declared);
    return std::ranges::find(declared, ours) != declared.end() ? ours : typed;
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--model-args {}: {}", typed, error.what()));
  }
}

/// The model's own names for what was typed.
void name_model_args(Options& options) {
  const model::ZooEntry* entry = model::find_entry(model::zoo(), options.model);
  if (entry == nullptr) return;
  const std::vector<std::string> declared = argument_names(*entry);
  model::ModelArgs named;
  for (const auto& [key, value] : options.model_args) named[name_of_argument(key, declared)] = value;
  options.model_args = std::move(named);
}

void require_fitting_optimizer(const model::OptimizerOptions& optimizer) {
  if (optimizer.nesterov && optimizer.momentum == 0) {
    throw UsageError("--nesterov needs --momentum above 0");
  }
  if (optimizer.nesterov && optimizer.dampening != 0) {
    throw UsageError("--nesterov needs --dampening 0, as in PyTorch");
  }
}

/// A path in the place of a data set's name.
void take_dataset_path(Options& options) {
  const auto name = data::dataset_at(options.dataset, options.plugins.empty());
  if (!name) return;
  if (!options.data_dir.empty())
    throw UsageError(fmt::format("--dataset {} is where the data is; leave --data-dir out", options.dataset));
  options.data_dir = options.dataset;
  options.dataset = *name;
}

/// What the data set does with its pictures where nothing else is asked for. A plugin's is not known yet.
void set_transforms(Options& options) {
  const auto& entries = data::datasets();
  const auto entry = std::ranges::find(entries, options.dataset, &data::DatasetEntry::name);
  if (entry == entries.end()) return;
  if (!entry->transforms) {
    const bool asks = !(options.transform + options.eval_transform).empty();
    if (asks && (options.is_typed("transform") || options.is_typed("eval-transform")))
      throw UsageError(fmt::format("--transform is for pictures; {} has none", options.dataset));
    // A run's, when it is evaluated on other data.
    options.transform.clear();
    options.eval_transform.clear();
    return;
  }
  if (options.transform.empty()) options.transform = entry->transforms->train;
  if (options.eval_transform.empty()) options.eval_transform = entry->transforms->eval;
}

void set_dependent_defaults(Options& options) {
  if (options.optimizer.kind == model::OptimizerKind::adamw && !options.weight_decay_given) {
    options.optimizer.weight_decay = 0.01;
  }
  if (options.epochs == 0 && options.max_steps == 0) options.epochs = 1;
  if (options.dataset == "synthetic" && !options.eval_every_given && options.eval_samples == 0) {
    options.eval_every = 0;
  }
  if (options.eval_every == 0 && options.eval_samples > 0) {
    throw UsageError("--eval-samples with --eval-every 0: nothing is evaluated; give --eval-every 1");
  }
  require_fitting_optimizer(options.optimizer);
}

/// What a file of weights is read with, of all that a run was told: not how it was trained.
bool describes_model_or_data(const std::string& name) {
  constexpr std::array others{"amp", "conv-precision", "eval-samples", "matmul-precision", "seed"};
  constexpr std::array of_training{"init-from", "global-batch", "download"};
  const OptionEntry* entry = find_entry(name);
  if (entry == nullptr) return false;
  const bool in_group = entry->group == "model" || entry->group == "data";
  return (in_group && std::ranges::find(of_training, name) == of_training.end()) ||
         std::ranges::find(others, name) != others.end();
}

std::string data_dir_of(const TypedSettings& run) {
  const auto setting = std::ranges::find(run, "data-dir", &TypedSetting::name);
  return setting == run.end() ? std::string() : setting->text;
}

bool names(const TypedSettings& settings, std::string_view option) {
  return std::ranges::find(settings, option, &TypedSetting::name) != settings.end();
}

Options resolve(const TypedSettings& base, const TypedSettings& typed) {
  Options options;
  apply_settings(options, base);
  apply_settings(options, typed);
  for (const TypedSetting& setting : typed) {
    if (setting.place != Place::file_of_a_run) options.typed.push_back(setting.name);
    if (setting.place == Place::command_line) options.on_command_line.push_back(setting.name);
  }
  require_fit_for_config_file(options);
  require_one_batch_size(options);
  take_dataset_path(options);
  name_model_and_dataset(options);
  name_model_args(options);
  set_transforms(options);
  set_dependent_defaults(options);
  return options;
}

}  // namespace

bool Options::is_typed(std::string_view option) const {
  return std::ranges::find(typed, option) != typed.end();
}

bool Options::is_on_command_line(std::string_view option) const {
  return std::ranges::find(on_command_line, option) != on_command_line.end();
}

namespace {

/// `command`: what files say for others is set aside; null: nothing is.
Options parse(const std::vector<std::string>& arguments, const std::string& dataset,
              const OptionReader* command) {
  const CommandLine line = read_command_line(arguments);
  if (!line.operands.empty()) {
    throw UsageError(fmt::format(
        "'{}' belongs to no option: options begin with --, and a command comes first; see trainer --help",
        line.operands.front()));
  }
  TypedSettings base;
  if (!dataset.empty()) base.push_back({.name = "dataset", .text = dataset});
  TypedSettings settings = with_files_read(line.settings);
  std::erase_if(settings, [command](const TypedSetting& setting) {
    const OptionEntry* const entry = find_entry(setting.name);
    const bool is_of_file = setting.place != Place::command_line;
    return command != nullptr && is_of_file && entry != nullptr && !command->reads(*entry);
  });
  Options options = resolve(base, settings);
  if (command != nullptr) require_read_by_command(*command, options);
  require_same_scale(options);
  return options;
}

/// A run's data that are not where they were may have moved with it.
bool is_same_data(const std::filesystem::path& of_run, const std::filesystem::path& given) {
  std::error_code absent;
  if (std::filesystem::exists(of_run, absent)) return std::filesystem::equivalent(of_run, given, absent);
  return of_run.has_filename() && of_run.filename() == given.filename();
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  return parse(arguments, {}, nullptr);
}

Options parse_options_for(const OptionReader& command, const std::vector<std::string>& arguments,
                          const std::string& dataset) {
  return parse(arguments, dataset, &command);
}

CommandOptions parse_options_of_run(
    const std::vector<std::string>& arguments,
    const std::function<std::optional<std::filesystem::path>(const std::string& operand)>& config_of) {
  const CommandLine line = read_command_line(arguments);
  TypedSettings base;
  const auto config = line.operands.empty() ? std::nullopt : config_of(line.operands.front());
  if (config) base = read_config_file(config->string());
  std::erase_if(base, [](const TypedSetting& setting) { return !describes_model_or_data(setting.name); });
  // Data that are named anew have nothing of the run's place.
  const TypedSettings typed = with_files_read(line.settings);
  const bool data_given = names(typed, "dataset") || names(typed, "data-dir");
  const bool has_more_operands = line.operands.size() > 1;
  const std::filesystem::path data_of_run = data_dir_of(base);
  if (has_more_operands && !config && !names(typed, "dataset"))
    base.push_back({.name = "dataset", .text = "image-folder"});
  if (data_given || has_more_operands) {
    std::erase_if(base, [](const TypedSetting& setting) {
      return setting.name == "data-dir" || setting.name == "target-file" || setting.name == "eval-samples";
    });
  }
  Options options = resolve(base, typed);
  options.data_are_new = data_given && !is_same_data(data_of_run, options.data_dir);
  return {.options = std::move(options), .operands = line.operands, .data_given = data_given};
}

std::string to_ini(const Options& options) {
  std::string ini;
  std::string group;
  for (const OptionEntry& entry : option_table()) {
    const std::string value = entry.keep ? entry.keep(options) : entry.show(options);
    if (value.empty()) continue;
    if (entry.group != group) ini += (ini.empty() ? "" : "\n") + group_title(entry.group);
    group = entry.group;
    ini += fmt::format("{} = {}\n", entry.name, config_value(value));
  }
  return ini;
}

std::string options_help(const OptionReader* reader) {
  const Options defaults;
  std::string help;
  std::string group;
  for (const OptionEntry& entry : option_table()) {
    if (reader != nullptr && !reader->reads(entry)) continue;
    if (entry.group != group) help += fmt::format("\n{}:\n", entry.group);
    group = entry.group;
    const std::string left = "--" + entry.name + (entry.is_switch() ? "" : " " + entry.value_name);
    const std::string value = entry.is_switch() ? std::string() : entry.show(defaults);
    help += fmt::format("  {:<32} {}{}\n", left, entry.what, value.empty() ? "" : " (" + value + ")");
  }
  return help;
}

std::int64_t batch_size_per_rank(const Options& options, int world_size) {
  const std::int64_t parts = options.accumulate_steps * world_size;
  const std::string of_parts = fmt::format(
      "{} ranks{}", world_size,
      options.accumulate_steps == 1 ? "" : fmt::format(" x --accumulate-steps {}", options.accumulate_steps));
  if (options.global_batch == 0) {
    if (options.batch_size == automatic_batch)
      throw UsageError("--batch-size auto is for training on GPUs: give a number here");
    if (options.batch_size > most_global_batch / parts) {
      throw UsageError(fmt::format("--batch-size {} on {}: their sum is at most {}", options.batch_size,
                                   of_parts, most_global_batch));
    }
    return options.batch_size;
  }
  if (options.global_batch % parts != 0) {
    throw UsageError(fmt::format("--global-batch {} is not divisible by {}", options.global_batch, of_parts));
  }
  return options.global_batch / parts;
}

}  // namespace lockstep::runtime
