#include "launcher/command_line.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "kernels/base/error.h"
#include "kernels/base/typed_words.h"
#include "launcher/words.h"

namespace lockstep::launcher {
namespace {

namespace po = boost::program_options;
using Arguments = std::vector<std::string>;

constexpr const char* default_signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGXCPU";

po::options_description describe() {
  po::options_description all(
      "Options (each also as PET_<NAME> in the environment; - and _ are the same in names)", 108, 68);
  const auto text = [](const char* fallback) { return po::value<std::string>()->default_value(fallback); };
  const auto flag = [] { return po::bool_switch(); };
  const auto add = [&](const char* name, const po::value_semantic* value, const char* meaning) {
    all.add_options()(name, value, meaning);
  };
  add("nproc-per-node", text("1"), "ranks on this node: a number, cpu, gpu, or auto (gpu if any)");
  add("standalone", flag(), "one node, a free port; master-addr, master-port and rdzv-endpoint are ignored");
  add("master-addr", text(""), "address of node 0, where rank 0 is (127.0.0.1)");
  add("master-port", text("0"), "port of rank 0; 0: a free one, of several nodes 29500");
  add("nnodes", text("1"), "nodes: one launch on each, all with the same options but node-rank");
  add("node-rank", text("0"), "this node's number, from 0");
  add("rdzv-backend", text("static"), "static; for one node c10d is the same");
  add("rdzv-endpoint", text(""), "HOST[:PORT], in place of master-addr and master-port");
  add("rdzv-id", text(""), "the run's id, the same on all nodes (random; of several nodes none)");
  add("rdzv-conf", text(""), "accepted: there is nothing to configure");
  add("local-addr", text(""), "accepted: there is nothing to choose");
  add("max-restarts", text("0"), "how often all ranks of the node are started again after a failure");
  add("monitor-interval", text("0.1"), "accepted: a rank's end is seen at once");
  add("start-method", text("spawn"), "spawn, fork or forkserver; accepted: ranks are programs of their own");
  add("event-log-handler", text("null"), "null: events are recorded by nobody");
  add("logs-specs", text("default"), "default: the logs below");
  add("role", text("default"), "ROLE_NAME of the ranks");
  add("module,m", flag(), "PROGRAM is a Python module");
  add("no-python", flag(), "run a .py PROGRAM itself, not under python3 -u");
  add("log-dir", text(""), "folder for the ranks' logs (a temporary one)");
  add("redirects,r", text("0"), "streams to logs: 1 stdout, 2 stderr, 3 both; or RANK:N,...");
  add("tee,t", text("0"), "the same, and to the console too");
  add("local-ranks-filter", text(""), "ranks shown on the console: 0,1,... (all)");
  add("log-line-prefix-template", text(""),
      "prefix of each line, with ${role_name}, ${rank}, ${local_rank} filled in ([rank0] and so on, on a "
      "terminal only)");
  add("shutdown-timeout", text("30"), "seconds between SIGTERM and SIGKILL");
  add("signals-to-handle", po::value<std::string>()->default_value(default_signals, "..."),
      "passed on to the ranks (SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGXCPU)");
  add("allow-gpu-sharing", flag(),
      "more ranks than GPUs: local rank modulo GPUs; NCCL, if asked for, by sockets");
  add("numa-binding", text(""),
      "none: ranks are bound to no cores. Without it each is bound to an equal slice, near its GPU");
  add("help,h", flag(), "this text");
  add("version", flag(), "version and commit");
  return all;
}

std::vector<std::string> long_names(const po::options_description& all) {
  std::vector<std::string> names;
  for (const auto& option : all.options()) names.push_back("--" + option->long_name());
  return names;
}

const po::option_description* find_option(const po::options_description& all, const std::string& token) {
  const bool is_long = token.starts_with("--");
  for (const auto& option : all.options()) {
    if (is_long ? option->long_name() == token.substr(2)
                : option->canonical_display_name(po::command_line_style::allow_dash_for_short) == token) {
      return option.get();
    }
  }
  return nullptr;
}

/// Our options in the front of the command line, and the command behind them.
struct Split {
  std::vector<po::option> options;
  Arguments command;
};

/// "--name=value", "-nVALUE" or the name alone.
struct Token {
  std::string name;
  std::optional<std::string> value;
};

Token read_token(const std::string& word) {
  if (!word.starts_with("--")) {
    return word.size() > 2 ? Token{word.substr(0, 2), word.substr(2)} : Token{word, std::nullopt};
  }
  const auto equals = word.find('=');
  if (equals == std::string::npos) return {word, std::nullopt};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

[[noreturn]] void throw_unknown(const po::options_description& all, const std::string& typed) {
  throw UsageError(unknown_name("option", typed, long_names(all),
                                "`launch --help` lists them; options of PROGRAM stand behind it"));
}

/// Ours for another launcher's word. UsageError for one of another meaning, with what to type.
const po::option_description* find_by_field_word(const po::options_description& all,
                                                 const std::string& typed) {
  const FieldWord* word = find_word(field_words, typed.starts_with("--") ? typed.substr(2) : typed);
  if (word == nullptr) return nullptr;
  if (word->ours.empty()) throw UsageError(fmt::format("{}: {}", typed, word->hint));
  return find_option(all, "--" + std::string(word->ours));
}

Split split(const po::options_description& all, const Arguments& arguments) {
  Split result;
  auto next = arguments.begin();
  for (; next != arguments.end() && next->starts_with('-') && *next != "-"; ++next) {
    if (*next == "--") {
      ++next;
      break;
    }
    Token token = read_token(*next);
    const po::option_description* known = find_option(all, with_dashes(token.name));
    if (!known && !next->starts_with("--")) known = find_by_field_word(all, *next);
    if (!known) known = find_by_field_word(all, token.name);
    if (!known) throw_unknown(all, token.name);
    const bool wants_value = known->semantic()->min_tokens() > 0;
    if (!wants_value && token.value) throw UsageError(fmt::format("option '{}' takes no value", token.name));
    if (wants_value && !token.value) {
      if (++next == arguments.end()) throw UsageError(fmt::format("option '{}' wants a value", token.name));
      token.value = *next;
    }
    // The last one counts, so that a wrapper's options can be typed anew behind them.
    std::erase_if(result.options,
                  [&](const po::option& earlier) { return earlier.string_key == known->long_name(); });
    result.options.emplace_back(known->long_name(), wants_value ? Arguments{*token.value} : Arguments{});
  }
  result.command.assign(next, arguments.end());
  return result;
}

std::string pet_name(std::string option) {
  std::ranges::transform(option, option.begin(), [](char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  });
  return "PET_" + option;
}

std::vector<po::option> from_environment(const po::options_description& all,
                                         const comm::Environment& environment) {
  std::vector<po::option> options;
  for (const auto& option : all.options()) {
    const std::string& name = option->long_name();
    if (name == "help" || name == "version") continue;
    // A pod's `value: ""` says nothing.
    const std::string value = environment(pet_name(name).c_str()).value_or("");
    if (!value.empty()) options.emplace_back(name, Arguments{value});
  }
  return options;
}

/// What is already in `values` stays: the command line is stored before the environment.
void store(po::variables_map& values, const po::options_description& all, std::vector<po::option> options) {
  po::parsed_options parsed(&all);
  parsed.options = std::move(options);
  for (po::option& option : parsed.options) option.original_tokens = {"--" + option.string_key};
  try {
    po::store(parsed, values);
  } catch (const po::error& error) {
    throw UsageError(fmt::format("{}; see launch --help", error.what()));
  }
}

void store_from_environment(po::variables_map& values, const po::options_description& all,
                            const po::option& option) {
  try {
    store(values, all, {option});
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", pet_name(option.string_key), error.what()));
  }
}

}  // namespace

CommandLine read_command_line(const Arguments& arguments, const comm::Environment& environment) {
  const po::options_description all = describe();
  Split front = split(all, arguments);
  CommandLine result;
  result.command = std::move(front.command);
  store(result.values, all, std::move(front.options));
  const auto is_typed = [&typed = result.values](const std::string& name) {
    return !typed[name].defaulted();
  };
  std::vector<po::option> others = from_environment(all, environment);
  // PET_MASTER_ADDR and PET_MASTER_PORT, which come before an endpoint, do not come before a typed one.
  std::erase_if(others, [&, has_endpoint = is_typed("rdzv-endpoint")](const po::option& option) {
    const bool is_of_endpoint = option.string_key == "master-addr" || option.string_key == "master-port";
    return is_typed(option.string_key) || (has_endpoint && is_of_endpoint);
  });
  for (const po::option& option : others) result.from_environment.insert(option.string_key);
  for (const po::option& option : others) store_from_environment(result.values, all, option);
  return result;
}

std::string named_as_given(const std::string& message, const std::set<std::string>& from_environment) {
  const auto end = message.find_first_of(": ");
  const bool is_of_option = message.starts_with("--") && end != std::string::npos;
  const std::string name = is_of_option ? message.substr(2, end - 2) : std::string();
  return from_environment.contains(name) ? pet_name(name) + message.substr(end) : message;
}

std::string help_text() {
  std::ostringstream text;
  text << "launch [options] [--] PROGRAM [ARGS...]: start PROGRAM once per rank, watch the ranks, stop them "
          "together.\n"
          "PROGRAM: a .py file runs under python3 -u; a name without a slash is looked for beside launch, "
          "then in PATH.\n"
       << describe();
  return text.str();
}

}  // namespace lockstep::launcher
