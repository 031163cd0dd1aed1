#include "runtime/options/options.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "runtime/options/settings.h"
#include "runtime/options/table.h"
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
  for (const auto& [name, text] : settings) {
    if (name == "config") continue;
    try {
      if (const OptionEntry* entry = find_entry(name)) {
        entry->set(options, text);
        continue;
      }
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--{}: {}", name, error.what()));
    }
    refuse_future(*find_future(name), text);
  }
}

/// Our names for the words of the field. A plugin may bring what is only a hint's word here.
void name_model_and_dataset(Options& options) {
  const auto name = [&](std::string& typed, const char* option, std::span<const FieldWord> words,
                        std::span<const std::string> names) {
    try {
      typed = our_name(typed, words, names);
    } catch (const UsageError& hint) {
      if (options.plugins.empty()) throw UsageError(fmt::format("--{}: {}", option, hint.what()));
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
  if (options.optimizer.nesterov && options.optimizer.momentum == 0) {
    throw UsageError("--nesterov needs --momentum above 0");
  }
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  const TypedSettings typed = read_command_line(arguments);
  Options options;
  for (const auto& [name, text] : typed) {
    if (name == "config") apply_settings(options, read_config_file(text));
  }
  apply_settings(options, typed);
  name_model_and_dataset(options);
  name_model_args(options);
  set_dependent_defaults(options);
  return options;
}

std::string to_ini(const Options& options) {
  std::string ini;
  std::string group;
  for (const OptionEntry& entry : option_table()) {
    const std::string value = entry.show(options);
    if (value.empty()) continue;
    if (entry.group != group) ini += fmt::format("{}# {}\n", ini.empty() ? "" : "\n", entry.group);
    group = entry.group;
    ini += fmt::format("{} = {}\n", entry.name, value);
  }
  return ini;
}

std::string options_help() {
  const Options defaults;
  std::string help;
  std::string group;
  for (const OptionEntry& entry : option_table()) {
    if (entry.group != group) help += fmt::format("\n{}:\n", entry.group);
    group = entry.group;
    const std::string left = "--" + entry.name + (entry.is_switch() ? "" : " " + entry.value_name);
    const std::string value = entry.is_switch() ? std::string() : entry.show(defaults);
    help += fmt::format("  {:<32} {}{}\n", left, entry.what, value.empty() ? "" : " (" + value + ")");
  }
  return help;
}

std::int64_t batch_size_per_rank(const Options& options, int world_size) {
  if (options.global_batch == 0) {
    if (options.batch_size > most_global_batch / world_size) {
      throw UsageError(fmt::format("--batch-size {} on {} ranks: their sum is at most {}", options.batch_size,
                                   world_size, most_global_batch));
    }
    return options.batch_size;
  }
  if (options.global_batch % world_size != 0) {
    throw UsageError(
        fmt::format("--global-batch {} is not divisible by {} ranks", options.global_batch, world_size));
  }
  return options.global_batch / world_size;
}

}  // namespace lockstep::runtime
