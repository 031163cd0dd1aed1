#include "launcher/options.h"

#include <csignal>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace lockstep::launcher {
namespace {

using Arguments = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

Options parse(const Arguments& arguments, const Variables& variables = {}) {
  return parse_options(arguments, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string complaint(const Arguments& arguments, const Variables& variables = {}) {
  try {
    parse(arguments, variables);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("dashes and underscores are the same in option names, not in values") {
  for (const char* name : {"--nproc_per_node", "--nproc-per-node", "--nproc_per-node"}) {
    CHECK(parse({name, "3", "a_b"}).nproc_per_node == "3");
    CHECK(parse({std::string(name) + "=3", "a_b"}).nproc_per_node == "3");
  }
  CHECK(parse({"--rdzv_id=a_b-c", "p"}).run_id == "a_b-c");
}

TEST_CASE("of an option that is typed twice the last counts, as in torchrun") {
  CHECK(parse({"--nproc_per_node=1", "--standalone", "--nproc-per-node", "2", "--standalone", "p"})
            .nproc_per_node == "2");
  CHECK(parse({"--tee=1", "-t2", "p"}).tee.has(0, 2));
  CHECK_FALSE(parse({"--tee=1", "-t2", "p"}).tee.has(0, 1));
}

TEST_CASE("the command begins at the first word that is no option, or behind --") {
  CHECK(parse({"--standalone", "prog", "--nproc_per_node=9", "-x"}).command ==
        Arguments{"prog", "--nproc_per_node=9", "-x"});
  CHECK(parse({"--", "--prog", "--"}).command == Arguments{"--prog", "--"});
  CHECK(parse({"-m", "pkg.mod", "a"}).module);
  CHECK(complaint({"--standalone"}).find("no program") != std::string::npos);
}

TEST_CASE("an abbreviation is no option") {
  CHECK(complaint({"--master_prt=1", "p"}).find("'--master-port'") != std::string::npos);
}

TEST_CASE("variables PET_<NAME> fill in what the command line leaves open") {
  const Variables variables = {{"PET_NPROC_PER_NODE", "4"},
                               {"PET_MASTER_ADDR", "10.0.0.7"},
                               {"PET_MASTER_PORT", "1234"},
                               {"PET_NO_PYTHON", "1"}};
  const Options options = parse({"--master-port=99", "p"}, variables);
  CHECK(options.nproc_per_node == "4");
  CHECK(options.master_addr == "10.0.0.7");
  CHECK(options.master_port == 99);
  CHECK(options.no_python);
}

TEST_CASE("a variable that is empty says nothing, as a pod's `value: \"\"`") {
  const Variables empty = {{"PET_MODULE", ""},
                           {"PET_STANDALONE", ""},
                           {"PET_MAX_RESTARTS", ""},
                           {"PET_ROLE", ""},
                           {"PET_NPROC_PER_NODE", ""}};
  const Options options = parse({"--master_port=29700", "p"}, empty);
  CHECK_FALSE(options.module);
  CHECK(options.master_port == 29700);
  CHECK(options.max_restarts == 0);
  CHECK(options.role == "default");
  CHECK(options.nproc_per_node == "1");
}

TEST_CASE("a wrong value is named by who gave it: the variable, or the option that was typed") {
  CHECK(complaint({"p"}, {{"PET_MAX_RESTARTS", "x"}}) == "PET_MAX_RESTARTS: 'x' is not a whole number");
  CHECK(complaint({"--max_restarts=y", "p"}, {{"PET_MAX_RESTARTS", "x"}}) ==
        "--max-restarts: 'y' is not a whole number");
  CHECK(complaint({"p"}, {{"PET_NODE_RANK", "1"}}).starts_with("PET_NODE_RANK 1: "));
  CHECK(complaint({"p"}, {{"PET_MODULE", "maybe"}}).starts_with("PET_MODULE: "));
  CHECK(complaint({"--module", "p"}, {{"PET_MODULE", "maybe"}}) == "accepted");
}

TEST_CASE("defaults") {
  const Options options = parse({"p"});
  CHECK(options.nproc_per_node == "1");
  CHECK(options.master_addr == "127.0.0.1");
  CHECK(options.master_port == 0);
  CHECK(options.max_restarts == 0);
  CHECK(parse({"--max-restarts=3", "p"}).max_restarts == 3);
  CHECK(parse({"p"}, {{"PET_MAX_RESTARTS", "2"}}).max_restarts == 2);
  CHECK(options.shutdown_timeout == 30);
  CHECK(options.signals == std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGXCPU});
}

TEST_CASE("an endpoint stands in for address and port; standalone ignores both") {
  const Options options = parse({"--rdzv_backend=c10d", "--rdzv_endpoint=hostA:7000", "p"});
  CHECK(options.master_addr == "hostA");
  CHECK(options.master_port == 7000);
  CHECK(parse({"--rdzv_endpoint=[::1]:7000", "p"}).master_addr == "::1");
  CHECK(parse({"--rdzv_endpoint=[::1]:7000", "p"}).master_port == 7000);
  CHECK(parse({"--rdzv_endpoint=fd00::1:7000", "p"}).master_addr == "fd00::1");
  CHECK(parse({"--rdzv_endpoint=fd00::1:7000", "p"}).master_port == 7000);
  CHECK(parse({"--rdzv_endpoint=[fd00::1]", "p"}).master_addr == "fd00::1");
  CHECK(parse({"--rdzv_endpoint=[fd00::1]", "p"}).master_port == 0);
  CHECK(parse({"--master_addr=[fd00::1]", "p"}).master_addr == "fd00::1");
  CHECK(parse({"--rdzv_endpoint=hostA", "p"}).master_port == 0);
  const Variables others = {{"PET_MASTER_ADDR", "hostB"}, {"PET_MASTER_PORT", "8"}};
  CHECK(parse({"--rdzv_endpoint=hostA:7000", "p"}, others).master_addr == "hostA");
  CHECK(parse({"--rdzv_endpoint=hostA:7000", "p"}, others).master_port == 7000);
  CHECK(parse({"--rdzv_endpoint=hostA:7000", "--master_port=9", "p"}, others).master_port == 9);
  CHECK(parse({"--rdzv_endpoint=hostA:7000", "--master_port=8", "p"}).master_port == 8);
  CHECK(parse({"--standalone", "--rdzv_endpoint=hostA:7000", "p"}).master_addr == "127.0.0.1");
  CHECK(parse({"--standalone", "--master_port=8", "p"}).master_port == 0);
}

TEST_CASE("an endpoint or an address that can be none is refused with what to type") {
  for (const char* wrong : {"http://hostA:29500", "hostA :29514", "[::1", "::1]", "127.0.0.1:29500:3", "::1",
                            "hostA:", "fd00::1"}) {
    INFO(wrong);
    CHECK(complaint({std::string("--rdzv_endpoint=") + wrong, "p"}) ==
          fmt::format("--rdzv-endpoint: '{}' is none: want HOST, HOST:PORT, [IPV6] or [IPV6]:PORT", wrong));
  }
  for (const char* wrong : {"hostA:29500", "http://hostA", "host A", "[hostA]:1"}) {
    INFO(wrong);
    CHECK(complaint({std::string("--master_addr=") + wrong, "p"}) ==
          fmt::format(
              "--master-addr: '{}' is none: want a host's name or address, and the port in --master-port",
              wrong));
  }
  CHECK(parse({"--master_addr=fe80::1%eth0", "p"}).master_addr == "fe80::1%eth0");
}

TEST_CASE("what one node needs nothing of is accepted, what is missing is refused") {
  CHECK(complaint({"--nnodes=1:1", "--node_rank=0", "--monitor_interval=5", "p"}) == "accepted");
  CHECK(complaint({"--start-method=spawn", "--event_log_handler", "null", "--logs-specs=default", "p"}) ==
        "accepted");
  CHECK(complaint({"p"}, {{"PET_START_METHOD", "fork"}}) == "accepted");
  for (const char* option : {"--nnodes=1:4", "--rdzv_backend=etcd", "--numa_binding=node",
                             "--start_method=thread", "--event-log-handler=console", "--logs_specs=mine"}) {
    CHECK(complaint({option, "p"}).find("not in this version") != std::string::npos);
  }
  CHECK(complaint({"--numa-binding=exclusive", "p"}) ==
        "--numa-binding exclusive: not in this version, which has none alone; without the option each rank "
        "is bound to an equal slice of the cores");
  CHECK(complaint({"p"}, {{"PET_LOGS_SPECS", "mine"}}).starts_with("PET_LOGS_SPECS mine: "));
}

TEST_CASE("ranks are bound unless told otherwise") {
  CHECK(parse({"p"}).binds);
  CHECK_FALSE(parse({"--numa_binding=none", "p"}).binds);
}

TEST_CASE("several nodes: all are told the same, and which one they are") {
  const Options options = parse({"--nnodes=2", "--node_rank=1", "--master_addr=hostA", "p"});
  CHECK(options.nnodes == 2);
  CHECK(options.node_rank == 1);
  CHECK(options.master_port == 29500);
  CHECK(options.run_id == "none");
  CHECK(parse({"--nnodes=2:2", "--rdzv_endpoint=hostA:7", "--rdzv_id=x", "p"}).master_port == 7);
  CHECK(parse({"--nnodes=2:2", "--rdzv_endpoint=hostA:7", "--rdzv_id=x", "p"}).run_id == "x");

  const Variables kubeflow = {{"PET_NNODES", "3"},
                              {"PET_NODE_RANK", "2"},
                              {"PET_MASTER_ADDR", "job-node-0-0.job"},
                              {"PET_MASTER_PORT", "29400"},
                              {"PET_NPROC_PER_NODE", "auto"}};
  const Options pod = parse({"p"}, kubeflow);
  CHECK(pod.nnodes == 3);
  CHECK(pod.node_rank == 2);
  CHECK(pod.master_addr == "job-node-0-0.job");
  CHECK(pod.master_port == 29400);
  CHECK(pod.nproc_per_node == "auto");

  for (const Arguments& wrong : {Arguments{"--nnodes=2", "p"},
                                 {"--nnodes=2", "--master_addr=h", "--node_rank=2", "p"},
                                 {"--nnodes=2", "--master_addr=h", "--node_rank=-1", "p"},
                                 {"--node_rank=1", "p"},
                                 {"--nnodes=0", "p"},
                                 {"--nnodes=x", "p"},
                                 {"--nnodes=1:4", "--master_addr=h", "p"},
                                 {"--nnodes=2", "--standalone", "p"},
                                 {"--nnodes=2", "--master_addr=h", "--rdzv_backend=c10d", "p"}}) {
    INFO(wrong.front() << ' ' << wrong[1]);
    CHECK(complaint(wrong) != "accepted");
  }
  CHECK(complaint({"--nnodes=2", "p"}).find("--master-addr") != std::string::npos);
  CHECK(complaint({"--nnodes=1:4", "p"}).find("not in this version") != std::string::npos);
}

TEST_CASE("numbers outside their range are refused with it") {
  CHECK(complaint({"--node_rank=4294967297", "p"}) ==
        "--node-rank: 4294967297 is not in the range 0 to 65536");
  CHECK(complaint({"--nnodes=4294967297", "p"}) == "--nnodes: 4294967297 is not in the range 1 to 65536");
  CHECK(complaint({"--master_port=70000", "p"}) == "--master-port: 70000 is not in the range 0 to 65535");
  CHECK(complaint({"--monitor_interval=1e300", "p"}) ==
        "--monitor-interval: 1e300 is not in the range 0 to 1000000000000");
  CHECK(complaint({"--monitor_interval=-1", "p"}) ==
        "--monitor-interval: -1 is not in the range 0 to 1000000000000");
  CHECK(complaint({"--shutdown_timeout=inf", "p"}) == "--shutdown-timeout: 'inf' is not a number");
  CHECK(complaint({"--local_ranks_filter=4294967296", "p"}) ==
        "--local-ranks-filter: 4294967296 is not in the range 0 to 65536");
  CHECK(complaint({"--redirects=4294967297", "p"}) ==
        "--redirects: 4294967297 is not in the range 0 to 65536");
  CHECK(parse({"--shutdown_timeout=1e10", "p"}).shutdown_timeout == 1e10);
}

TEST_CASE("bad values") {
  for (const char* option :
       {"--master_port=abc", "--master_port=70000", "--master_port=-1", "--shutdown_timeout=-1",
        "--shutdown_timeout=x", "--redirects=4", "--redirects=0:1,2", "--tee=a",
        "--signals_to_handle=SIGKILL", "--signals_to_handle=SIGFOO", "--local_ranks_filter=x",
        "--standalone=1", "--rdzv_endpoint=h:port", "--monitor_interval=x"}) {
    INFO(option);
    CHECK(complaint({option, "p"}) != "accepted");
  }
  CHECK(complaint({"--master_port"}).find("wants a value") != std::string::npos);
  CHECK(complaint({"-m", "--no_python", "p"}).find("exclude") != std::string::npos);
}

TEST_CASE("streams are chosen for all ranks or per rank") {
  const StreamChoice all = parse({"-r", "3", "p"}).redirects;
  CHECK(all.has(7, 1));
  CHECK(all.has(7, 2));
  CHECK(parse({"-r1", "p"}).redirects.has(0, 1));
  const StreamChoice some = parse({"--tee=0:1,2:2", "p"}).tee;
  CHECK(some.has(0, 1));
  CHECK_FALSE(some.has(0, 2));
  CHECK_FALSE(some.has(1, 1));
  CHECK(some.has(2, 2));
}

TEST_CASE("a local rank that this node does not have is refused by its option") {
  const auto refusal = [](const char* option, int ranks) {
    return tests::message_of<UsageError>([&] { check_local_ranks(parse({option, "p"}), ranks); });
  };
  CHECK(refusal("--local-ranks-filter=0,2", 2) ==
        "--local-ranks-filter: there is no local rank 2: this node has 0 to 1");
  CHECK(refusal("--redirects=1:3", 1) == "--redirects: there is no local rank 1: this node has 0 alone");
  CHECK(refusal("--tee=0:3,7:3", 4) == "--tee: there is no local rank 7: this node has 0 to 3");
  for (const char* option : {"--local-ranks-filter=0,1", "--redirects=1:3", "--tee=3"}) {
    CHECK_NOTHROW(check_local_ranks(parse({option, "p"}), 2));
  }
}

TEST_CASE("the help fits a screen") {
  std::size_t width = 0;
  std::size_t lines = 0;
  std::istringstream text(help_text());
  for (std::string line; std::getline(text, line); ++lines) width = std::max(width, line.size());
  CHECK(lines <= 40);
  CHECK(width <= 110);
}

}  // namespace
}  // namespace lockstep::launcher
