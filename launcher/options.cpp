#include "launcher/options.h"

#include <arpa/inet.h>
#include <string.h>

#include <csignal>
#include <sstream>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/number.h"
#include "launcher/command_line.h"

namespace lockstep::launcher {
namespace {

namespace po = boost::program_options;
using Arguments = std::vector<std::string>;

void refuse_unless(bool accepted, const std::string& option, const std::string& value,
                   const std::string& possible) {
  if (!accepted)
    throw UsageError(fmt::format("--{} {}: not in this version, which has {}", option, value, possible));
}

constexpr Range<std::int64_t> counts{0, 65536};
constexpr Range<std::int64_t> ports{0, 65535};
constexpr Range<double> waits{0, 1e12};

template <class Number>
Number parse(const std::string& option, std::string_view text, Range<Number> range) {
  try {
    return number_in(text, range);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--{}: {}", option, error.what()));
  }
}

int parse_int(const std::string& option, std::string_view text, Range<std::int64_t> range = counts) {
  return static_cast<int>(parse(option, text, range));
}

double parse_seconds(const std::string& option, const po::variables_map& values) {
  return parse(option, values[option].as<std::string>(), waits);
}

void refuse_what_is_missing(const po::variables_map& values) {
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  refuse_unless(text("rdzv-backend") == "static" || text("rdzv-backend") == "c10d", "rdzv-backend",
                text("rdzv-backend"), "static and c10d");
  const bool binds_as_ever = text("numa-binding").empty() || text("numa-binding") == "none";
  refuse_unless(binds_as_ever, "numa-binding", text("numa-binding"),
                "none alone; without the option each rank is bound to an equal slice of the cores");
  const std::string start = text("start-method");
  refuse_unless(start == "spawn" || start == "fork" || start == "forkserver", "start-method", start,
                "spawn, fork and forkserver, which are the same here");
  refuse_unless(text("event-log-handler") == "null", "event-log-handler", text("event-log-handler"),
                "null alone: leave it out; what launch does it says on stderr");
  refuse_unless(text("logs-specs") == "default", "logs-specs", text("logs-specs"),
                "default alone: leave it out, and choose logs by --log_dir, --redirects and --tee");
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

std::string without_brackets(const std::string& host) {
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

/// A name, or an IPv4 or IPv6 address without brackets; what else there is would be looked up for ever.
bool can_be_host(const std::string& host) {
  in6_addr bytes{};
  const std::string address = host.substr(0, host.find('%'));
  const bool is_ipv6 = inet_pton(AF_INET6, address.c_str(), &bytes) == 1;
  return is_ipv6 || host.find_first_of(":/[] \t") == std::string::npos;
}

std::string read_master_addr(const std::string& text) {
  std::string host = without_brackets(text);
  if (can_be_host(host)) return host;
  throw UsageError(fmt::format(
      "--master-addr: '{}' is none: want a host's name or address, and the port in --master-port", text));
}

/// "host:port", "[::1]:port", "::1:port", as torchrun reads it, or "host".
void read_endpoint(const std::string& endpoint, Options& options) {
  const auto colon = endpoint.ends_with(']') ? std::string::npos : endpoint.rfind(':');
  const std::string host = without_brackets(endpoint.substr(0, colon));
  if (!can_be_host(host) || endpoint.ends_with(':')) {
    throw UsageError(
        fmt::format("--rdzv-endpoint: '{}' is none: want HOST, HOST:PORT, [IPV6] or [IPV6]:PORT", endpoint));
  }
  if (options.master_addr.empty()) options.master_addr = host;
  if (options.master_port == 0 && colon != std::string::npos) {
    options.master_port = parse_int("rdzv-endpoint", std::string_view(endpoint).substr(colon + 1), ports);
  }
}

/// "2" or "2:2"; torchrun's MIN:MAX of a run that grows and shrinks is refused.
int read_nnodes(const std::string& text) {
  const auto colon = text.find(':');
  constexpr Range<std::int64_t> nodes{1, counts.most};
  const int least = parse_int("nnodes", text.substr(0, colon), nodes);
  const int most = colon == std::string::npos ? least : parse_int("nnodes", text.substr(colon + 1), nodes);
  refuse_unless(least == most, "nnodes", text, "a fixed number of nodes");
  return least;
}

/// What every node must be told the same, since nobody is asked.
void check_static_rendezvous(const po::variables_map& values, Options& options) {
  constexpr int default_port = 29500;
  refuse_unless(values["rdzv-backend"].as<std::string>() == "static", "rdzv-backend", "c10d",
                "static for several nodes: --nnodes, --node-rank, --master-addr and --master-port");
  if (values["standalone"].as<bool>()) throw UsageError("--standalone is for one node, --nnodes says more");
  if (options.master_addr.empty()) {
    throw UsageError(
        fmt::format("--nnodes {}: give --master-addr, the address of node 0, on all nodes", options.nnodes));
  }
  if (options.master_port == 0) options.master_port = default_port;
  if (options.run_id.empty()) options.run_id = "none";
}

void read_nodes(const po::variables_map& values, Options& options) {
  options.nnodes = read_nnodes(values["nnodes"].as<std::string>());
  options.node_rank = parse_int("node-rank", values["node-rank"].as<std::string>());
  if (options.node_rank >= options.nnodes) {
    throw UsageError(fmt::format("--node-rank {}: of {} node{} it is 0 to {}", options.node_rank,
                                 options.nnodes, options.nnodes == 1 ? "" : "s", options.nnodes - 1));
  }
  if (options.nnodes > 1) check_static_rendezvous(values, options);
}

void read_rendezvous(const po::variables_map& values, Options& options) {
  options.run_id = values["rdzv-id"].as<std::string>();
  if (!values["standalone"].as<bool>()) {
    options.master_addr = read_master_addr(values["master-addr"].as<std::string>());
    options.master_port = parse_int("master-port", values["master-port"].as<std::string>(), ports);
    read_endpoint(values["rdzv-endpoint"].as<std::string>(), options);
  }
  read_nodes(values, options);
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

Options read_options(const CommandLine& line) {
  const po::variables_map& values = line.values;
  Options options;
  options.command = line.command;
  options.from_environment = line.from_environment;
  options.help = values["help"].as<bool>();
  options.version = values["version"].as<bool>();
  if (options.help || options.version) return options;

  refuse_what_is_missing(values);
  options.nproc_per_node = values["nproc-per-node"].as<std::string>();
  options.role = values["role"].as<std::string>();
  options.binds = values["numa-binding"].as<std::string>() != "none";
  options.module = values["module"].as<bool>();
  options.allow_gpu_sharing = values["allow-gpu-sharing"].as<bool>();
  options.no_python = values["no-python"].as<bool>();
  options.shutdown_timeout = parse_seconds("shutdown-timeout", values);
  parse_seconds("monitor-interval", values);
  options.max_restarts = parse_int("max-restarts", values["max-restarts"].as<std::string>());
  for (const std::string& name : split_list(values["signals-to-handle"].as<std::string>())) {
    options.signals.push_back(parse_signal(name));
  }
  read_rendezvous(values, options);
  read_logs(values, options);
  if (options.command.empty())
    throw UsageError(
        "no program to start: launch [options] [--] PROGRAM [ARGS...], such as: launch --nproc_per_node=2 "
        "trainer --model mlp");
  if (options.module && options.no_python) throw UsageError("-m and --no-python exclude each other");
  return options;
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

Options parse_options(const Arguments& arguments, const comm::Environment& environment) {
  const CommandLine line = read_command_line(arguments, environment);
  try {
    return read_options(line);
  } catch (const UsageError& error) {
    throw UsageError(named_as_given(error.what(), line.from_environment));
  }
}

void check_local_ranks(const Options& options, int ranks) {
  const auto check = [&](const char* option, int rank) {
    if (rank >= ranks) {
      throw UsageError(fmt::format("--{}: there is no local rank {}: this node has {}", option, rank,
                                   ranks == 1 ? "0 alone" : fmt::format("0 to {}", ranks - 1)));
    }
  };
  for (const int rank : options.shown_ranks) check("local-ranks-filter", rank);
  check("redirects", options.redirects.last_rank());
  check("tee", options.tee.last_rank());
}

}  // namespace lockstep::launcher
