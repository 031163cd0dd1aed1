#include "runtime/options/options.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "kernels/base/error.h"
#include "kernels/base/nearest.h"
#include "runtime/options/table.h"
#include "runtime/options/values.h"

namespace lockstep::runtime {
namespace {

namespace po = boost::program_options;

const OptionEntry* find_entry(const std::string& name) {
  const auto found = std::ranges::find(option_table(), name, &OptionEntry::name);
  return found == option_table().end() ? nullptr : &*found;
}

const FutureOption* find_future(const std::string& name) {
  const auto found = std::ranges::find(future_options(), name, &FutureOption::name);
  return found == future_options().end() ? nullptr : &*found;
}

bool is_switch(const std::string& name) {
  if (const OptionEntry* entry = find_entry(name)) return entry->is_switch();
  const FutureOption* future = find_future(name);
  return future != nullptr && future->is_switch;
}

/// --max_steps=3 to --max-steps=3; a switch alone to --switch=true, so that it never takes the next word.
std::vector<std::string> normalised(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  for (std::string argument : arguments) {
    if (argument.starts_with("--")) {
      const std::size_t name_end = std::min(argument.find('='), argument.size());
      std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(name_end), '_', '-');
      if (name_end == argument.size() && is_switch(argument.substr(2))) argument += "=true";
    }
    result.push_back(std::move(argument));
  }
  return result;
}

po::options_description description() {
  po::options_description all;
  all.add_options()("config", po::value<std::string>());
  for (const OptionEntry& entry : option_table()) {
    all.add_options()(entry.name.c_str(), po::value<std::string>());
  }
  for (const FutureOption& option : future_options()) {
    all.add_options()(option.name.c_str(), po::value<std::string>());
  }
  return all;
}

[[noreturn]] void throw_unknown(const std::string& name) {
  std::vector<std::string> names{"--config", "--help", "--version"};
  for (const OptionEntry& entry : option_table()) names.push_back("--" + entry.name);
  for (const FutureOption& option : future_options()) names.push_back("--" + option.name);
  const std::string dashed = name.starts_with("--") ? name : "--" + name;
  throw UsageError(unknown_name("option", dashed, names));
}

using Settings = std::vector<std::pair<std::string, std::string>>;

Settings command_line(const std::vector<std::string>& arguments, const po::options_description& all) {
  constexpr int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  const po::positional_options_description no_words;
  try {
    const auto parsed =
        po::command_line_parser(normalised(arguments)).options(all).positional(no_words).style(style).run();
    Settings settings;
    for (const auto& option : parsed.options) {
      if (option.value.empty()) throw UsageError(fmt::format("--{} needs a value", option.string_key));
      settings.emplace_back(option.string_key, option.value.front());
    }
    return settings;
  } catch (const po::unknown_option& error) {
    throw_unknown(error.get_option_name());
  } catch (const po::too_many_positional_options_error&) {
    throw UsageError("a word that belongs to no option; options begin with --, see trainer --help");
  } catch (const po::error_with_option_name& error) {
    throw UsageError(fmt::format("{} needs a value", error.get_option_name()));
  }
}

Settings config_file(const std::string& path, const po::options_description& all) {
  std::ifstream file(path);
  if (!file) throw UsageError(fmt::format("--config {}: cannot be opened", path));
  try {
    Settings settings;
    for (const auto& option : po::parse_config_file(file, all, true).options) {
      std::string key = option.string_key;
      std::ranges::replace(key, '_', '-');
      if (find_entry(key) == nullptr && find_future(key) == nullptr) throw_unknown(key);
      settings.emplace_back(key, option.value.front());
    }
    return settings;
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", path, error.what()));
  } catch (const po::error& error) {
    throw UsageError(fmt::format("{}: {}", path, error.what()));
  }
}

void refuse_future(const FutureOption& option, const std::string& text) {
  const bool neutral =
      option.is_switch ? parse_switch(text) == parse_switch(option.neutral) : text == option.neutral;
  if (neutral && !option.neutral.empty()) return;
  const std::string hint = option.neutral.empty() ? "leave it out" : "what is: " + option.neutral;
  throw UsageError(fmt::format("--{} {} is not in this version; {}", option.name, text, hint));
}

void apply_settings(Options& options, const Settings& settings) {
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

void set_dependent_defaults(Options& options) {
  if (options.optimizer.kind == model::OptimizerKind::adamw && !options.weight_decay_given) {
    options.optimizer.weight_decay = 0.01;
  }
  if (options.epochs == 0 && options.max_steps == 0) options.epochs = 1;
  if (options.optimizer.nesterov && options.optimizer.momentum == 0) {
    throw UsageError("--nesterov needs --momentum above 0");
  }
  if (options.device != "auto" && options.device != "cpu" && options.device != "cuda" &&
      !options.device.starts_with("cuda:")) {
    throw UsageError(fmt::format("--device {}: what is: auto, cpu, cuda, cuda:N", options.device));
  }
  if (options.backend != "auto" && options.backend != "nccl" && options.backend != "host" &&
      options.backend != "mpi") {
    throw UsageError(
        fmt::format("--backend {} is not in this version; what is: auto, nccl, host, mpi", options.backend));
  }
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  const po::options_description all = description();
  const Settings typed = command_line(arguments, all);
  Options options;
  for (const auto& [name, text] : typed) {
    if (name == "config") apply_settings(options, config_file(text, all));
  }
  apply_settings(options, typed);
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

}  // namespace lockstep::runtime
