#include "launcher/options.h"

#include <string.h>

#include <boost/program_options.hpp>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <sstream>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/nearest.h"

namespace lockstep::launcher {
namespace {

namespace po = boost::program_options;
using Arguments = std::vector<std::string>;

po::options_description describe() {
  // Widths keep --help inside 100 columns.
  po::options_description all("Options (each also as PET_<NAME> in the environment; - and _ are the same)",
                              100, 60);
  const auto text = [](const char* fallback) { return po::value<std::string>()->default_value(fallback); };
  const auto number = [](int fallback) { return po::value<int>()->default_value(fallback); };
  all.add_options()                                                                                       //
      ("nproc-per-node", text("1"), "ranks on this node: a number, cpu, gpu, or auto (gpu if any)")       //
      ("standalone", po::bool_switch(), "one node on a free port; other rendezvous options are ignored")  //
      ("master-addr", text(""), "address of rank 0 (127.0.0.1)")                                          //
      ("master-port", number(0), "port of rank 0; 0: a free one")                                         //
      ("nnodes", text("1"), "nodes; this version: 1")                                                     //
      ("node-rank", number(0), "this node's number")                                                      //
      ("rdzv-backend", text("static"), "static or c10d")                                                  //
      ("rdzv-endpoint", text(""), "HOST[:PORT], in place of master-addr and master-port")                 //
      ("rdzv-id", text(""), "the run's id (random)")                                                      //
      ("rdzv-conf", text(""), "accepted; nothing to configure on one node")                               //
      ("local-addr", text(""), "accepted; nothing to choose on one node")                                 //
      ("max-restarts", number(0), "this version: 0")                                                      //
      ("monitor-interval", po::value<double>()->default_value(0.1, "0.1"),
       "accepted; exits are seen at once")                                                //
      ("role", text("default"), "ROLE_NAME of the workers")                               //
      ("module,m", po::bool_switch(), "PROGRAM is a Python module")                       //
      ("no-python", po::bool_switch(), "run a .py PROGRAM itself, not under python3 -u")  //
      ("log-dir", text(""), "folder for the workers' logs (a temporary one)")             //
      ("redirects,r", text("0"),
       "streams into logs: 1 stdout, 2 stderr, 3 both, or 0:1,1:2 by local rank")        //
      ("tee,t", text("0"), "the same, and on the console too")                           //
      ("local-ranks-filter", text(""), "local ranks on the console: 0,1 (all)")          //
      ("log-line-prefix-template", text(""), "of ${role_name}, ${rank}, ${local_rank}")  //
      ("shutdown-timeout", po::value<double>()->default_value(30, "30"),
       "seconds from SIGTERM to SIGKILL")                                                               //
      ("signals-to-handle", text("SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"), "passed on to the workers")  //
      ("numa-binding", text(""), "not in this version: ranks are bound to equal slices of the cores")   //
      ("help,h", po::bool_switch(), "this text")                                                        //
      ("version", po::bool_switch(), "version and commit");
  return all;
}

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
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

Split split(const po::options_description& all, const Arguments& arguments) {
  Split result;
  auto next = arguments.begin();
  for (; next != arguments.end() && next->starts_with('-') && *next != "-"; ++next) {
    if (*next == "--") {
      ++next;
      break;
    }
    const auto equals = next->starts_with("--") ? next->find('=') : std::string::npos;
    const std::string name = with_dashes(next->substr(0, equals));
    const po::option_description* known = find_option(all, name);
    if (!known) throw UsageError(unknown_name("option", next->substr(0, equals), long_names(all)));

    Arguments value;
    if (equals != std::string::npos) value.push_back(next->substr(equals + 1));
    const bool wants_value = known->semantic()->min_tokens() > 0;
    if (wants_value && value.empty()) {
      if (++next == arguments.end()) throw UsageError(fmt::format("option '{}' wants a value", name));
      value.push_back(*next);
    }
    if (!wants_value && !value.empty()) throw UsageError(fmt::format("option '{}' takes no value", name));
    result.options.emplace_back(known->long_name(), value);
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
                                         const EnvironmentLookup& environment) {
  std::vector<po::option> options;
  for (const auto& option : all.options()) {
    const std::string& name = option->long_name();
    if (name == "help" || name == "version") continue;
    if (auto value = environment(pet_name(name))) options.emplace_back(name, Arguments{*value});
  }
  return options;
}

/// Boost's own message for a bad value names neither the variable nor what is wanted, so it is only the cause
/// here.
void store(po::variables_map& values, const po::options_description& all, std::vector<po::option> options) {
  po::parsed_options parsed(&all);
  parsed.options = std::move(options);
  for (po::option& option : parsed.options) option.original_tokens = {"--" + option.string_key};
  try {
    po::store(parsed, values);
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
}

void refuse_unless(bool accepted, const std::string& option, const std::string& value,
                   const std::string& possible) {
  if (!accepted)
    throw UsageError(fmt::format("--{} {}: not in this version, which has {}", option, value, possible));
}

void refuse_what_is_missing(const po::variables_map& values) {
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  const auto number = [&](const char* name) { return values[name].as<int>(); };
  refuse_unless(text("nnodes") == "1" || text("nnodes") == "1:1", "nnodes", text("nnodes"), "--nnodes 1");
  refuse_unless(number("node-rank") == 0, "node-rank", std::to_string(number("node-rank")),
                "one node, --node-rank 0");
  refuse_unless(number("max-restarts") == 0, "max-restarts", std::to_string(number("max-restarts")),
                "--max-restarts 0");
  refuse_unless(text("rdzv-backend") == "static" || text("rdzv-backend") == "c10d", "rdzv-backend",
                text("rdzv-backend"), "static and c10d");
  refuse_unless(text("numa-binding").empty(), "numa-binding", text("numa-binding"),
                "binding of each rank to an equal slice of the cores, by itself");
}

int parse_int(const std::string& option, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    throw UsageError(fmt::format("--{}: '{}' is not a number", option, text));
  }
  return value;
}

int parse_port(const std::string& option, int port) {
  if (port < 0 || port > 65535) throw UsageError(fmt::format("--{} {}: a port is 0 to 65535", option, port));
  return port;
}

Arguments split_list(const std::string& text) {
  Arguments parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

int parse_signal(const std::string& name) {
  for (int number = 1; number < NSIG; ++number) {
    const char* known = sigabbrev_np(number);
    if (known && (name == known || name == std::string("SIG") + known)) {
      if (number == SIGKILL || number == SIGSTOP) break;
      return number;
    }
  }
  throw UsageError(fmt::format("--signals-to-handle: '{}' is no signal that can be handled", name));
}

/// "host:port", "[::1]:port" or "host".
void read_endpoint(const std::string& endpoint, Options& options) {
  const bool bracketed = endpoint.starts_with('[');
  const auto colon = endpoint.find(':', bracketed ? endpoint.find(']') : 0);
  std::string host = endpoint.substr(0, colon);
  if (bracketed && host.size() > 2) host = host.substr(1, host.size() - 2);
  if (options.master_addr.empty()) options.master_addr = host;
  if (options.master_port == 0 && colon != std::string::npos) {
    const std::string option = "rdzv-endpoint";
    options.master_port = parse_port(option, parse_int(option, std::string_view(endpoint).substr(colon + 1)));
  }
}

void read_rendezvous(const po::variables_map& values, Options& options) {
  options.run_id = values["rdzv-id"].as<std::string>();
  if (!values["standalone"].as<bool>()) {
    options.master_addr = values["master-addr"].as<std::string>();
    options.master_port = parse_port("master-port", values["master-port"].as<int>());
    read_endpoint(values["rdzv-endpoint"].as<std::string>(), options);
  }
  if (options.master_addr.empty()) options.master_addr = "127.0.0.1";
}

void read_logs(const po::variables_map& values, Options& options) {
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  options.log_dir = text("log-dir");
  options.redirects = StreamChoice::parse("redirects", text("redirects"));
  options.tee = StreamChoice::parse("tee", text("tee"));
  options.prefix_template = text("log-line-prefix-template");
  for (const std::string& rank : split_list(text("local-ranks-filter"))) {
    options.shown_ranks.push_back(parse_int("local-ranks-filter", rank));
  }
}

}  // namespace

StreamChoice StreamChoice::parse(const std::string& option, const std::string& text) {
  const auto streams = [&](std::string_view bits) {
    const int value = parse_int(option, bits);
    if (value > 3) throw UsageError(fmt::format("--{} {}: 0 none, 1 stdout, 2 stderr, 3 both", option, text));
    return value;
  };
  StreamChoice choice;
  if (text.find(':') == std::string::npos) {
    choice.all_ = streams(text);
    return choice;
  }
  for (const std::string& part : split_list(text)) {
    const auto colon = part.find(':');
    if (colon == std::string::npos)
      throw UsageError(fmt::format("--{} {}: want RANK:STREAMS,...", option, text));
    const std::string_view view = part;
    choice.ranks_[parse_int(option, view.substr(0, colon))] = streams(view.substr(colon + 1));
  }
  return choice;
}

bool StreamChoice::has(int local_rank, int stream) const {
  const auto own = ranks_.find(local_rank);
  return ((own == ranks_.end() ? all_ : own->second) & stream) != 0;
}

Options parse_options(const Arguments& arguments, const EnvironmentLookup& environment) {
  const po::options_description all = describe();
  Split front = split(all, arguments);
  po::variables_map values;
  store(values, all, std::move(front.options));
  store(values, all, from_environment(all, environment));

  Options options;
  options.command = std::move(front.command);
  options.help = values["help"].as<bool>();
  options.version = values["version"].as<bool>();
  if (options.help || options.version) return options;

  refuse_what_is_missing(values);
  options.nproc_per_node = values["nproc-per-node"].as<std::string>();
  options.role = values["role"].as<std::string>();
  options.module = values["module"].as<bool>();
  options.no_python = values["no-python"].as<bool>();
  options.shutdown_timeout = values["shutdown-timeout"].as<double>();
  if (!(options.shutdown_timeout >= 0)) throw UsageError("--shutdown-timeout: seconds, 0 or more");
  for (const std::string& name : split_list(values["signals-to-handle"].as<std::string>())) {
    options.signals.push_back(parse_signal(name));
  }
  read_rendezvous(values, options);
  read_logs(values, options);
  if (options.command.empty())
    throw UsageError("no program to start: launch [options] [--] PROGRAM [ARGS...]");
  if (options.module && options.no_python) throw UsageError("-m and --no-python exclude each other");
  return options;
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
