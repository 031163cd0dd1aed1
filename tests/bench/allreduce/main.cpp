// How long the host communicator's all-reduce takes, beside its floor: a copy of as many bytes by every rank
// at once. Both read and write each byte of a rank's bucket once.
//   bench_allreduce [--json] [--data-security tls|none] [--nodes N] [--ranks R]... [--bytes B]...
// With --nodes the ranks count as on N nodes and exchange over TCP on the loopback interface. Under launch,
// mpirun or srun each process is one rank, and LOCKSTEP_TOKEN their secret.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/make_communicator.h"
#include "comm/net/credentials.h"
#include "comm/net/tcp.h"
#include "comm/world/world.h"
#include "kernels/base/error.h"
#include "kernels/base/number.h"
#include "tests/support/no_stream.h"

namespace {

using namespace lockstep;
using namespace lockstep::comm;

using tests::NoStream;

/// What all ranks share.
struct Plan {
  std::vector<std::size_t> sizes;
  bool encrypts = true;
};

struct Row {
  int ranks;
  double meeting_ms;  ///< from nothing to a group, with the start of the other ranks
  std::size_t bytes;
  double all_reduce_ms;
  double floor_ms;
};

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
const std::vector<std::size_t> usual_sizes{64, 4 * kib, 400'000, 1'600'000, 4 * mib, 25 * mib, 64 * mib};

/// Milliseconds a call on this rank, median. As the peers are measured (gloo_allreduce.py,
/// mpi_allreduce.cpp): every call begins at a barrier after `prepare`, whose time a rate-limited wire uses to
/// rest.
double measure(Communicator& group, std::size_t bytes, const std::function<void()>& prepare,
               const std::function<void()>& call) {
  constexpr std::size_t warm_up = 3;
  std::vector<double> times(std::clamp<std::size_t>(256 * mib / bytes, 10, 2000) + warm_up);
  for (double& time : times) {
    prepare();
    group.barrier();
    const auto start = Clock::now();
    call();
    time = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
  times.erase(times.begin(), times.begin() + warm_up);
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

void check_sums(std::span<const float> values, int ranks) {
  const bool right =
      std::ranges::all_of(values, [&](float value) { return value == static_cast<float>(ranks); });
  if (!right) throw CommError(fmt::format("the sum of {} bytes is wrong", values.size_bytes()));
}

void copy_bytes(const std::byte* from, std::byte* to, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  asm volatile("" : : "r"(to) : "memory");  // the compiler must believe that the copy is read
}

std::vector<Row> run_rank(const World& world, const std::string& node, const Plan& plan,
                          Clock::time_point start) {
  const int ranks = world.size;
  const auto group =
      make_communicator(world, {.timeout = Seconds(60), .encrypt_data = plan.encrypts, .node = node});
  const double meeting_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  const std::size_t largest = std::ranges::max(plan.sizes);
  const auto arena = group->allocate_arena(DType::f32, static_cast<std::int64_t>(largest / sizeof(float)));
  const std::span values(reinterpret_cast<float*>(arena->data()), largest / sizeof(float));
  std::vector<std::byte> one(largest / 2, std::byte{1});
  std::vector<std::byte> other(largest / 2);
  NoStream stream;
  std::vector<Row> rows;
  for (const std::size_t bytes : plan.sizes) {
    Row row{.ranks = ranks, .meeting_ms = meeting_ms, .bytes = bytes, .all_reduce_ms = 0, .floor_ms = 0};
    const std::span summed = values.first(bytes / sizeof(float));
    row.all_reduce_ms = measure(
        *group, bytes, [&] { std::ranges::fill(summed, 1.0F); },
        [&] {
          group->all_reduce({arena.get(), 0, static_cast<std::int64_t>(summed.size())}, {}, stream);
        });
    check_sums(summed, ranks);
    row.floor_ms = measure(
        *group, bytes, [] {},
        [&] {
          copy_bytes(one.data(), other.data(), bytes / 2);
          copy_bytes(other.data(), one.data(), bytes / 2);
        });
    rows.push_back(row);
  }
  return rows;
}

/// Runs all ranks but the first in children.
std::vector<Row> run_ranks(int ranks, int nodes, const Plan& plan) {
  const auto start = Clock::now();
  World world;
  world.size = world.local_size = ranks;
  world.run_id = fmt::format("bench-{}-{}", getpid(), ranks);
  if (nodes > 1) {
    setenv("LOCKSTEP_TOKEN", make_secret().c_str(), 1);
    world.master_port = local_port(listen_tcp(world.master_addr, 0).get());
    world.master_port_is_ours = true;
  }
  const auto run = [&](int rank) {
    world.rank = world.local_rank = rank;
    return run_rank(world, nodes > 1 ? fmt::format("node {}", rank * nodes / ranks) : std::string(), plan,
                    start);
  };
  std::vector<pid_t> children;
  for (int rank = 1; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      run(rank);
      _exit(0);
    }
    children.push_back(child);
  }
  const std::vector<Row> rows = run(0);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  return rows;
}

void print_table(const std::vector<Row>& rows) {
  fmt::print("{:>5} {:>10} {:>12} {:>14} {:>10} {:>6}\n", "ranks", "meeting ms", "bytes", "all-reduce ms",
             "floor ms", "ratio");
  for (const Row& row : rows) {
    fmt::print("{:>5} {:>10.2f} {:>12} {:>14.4f} {:>10.4f} {:>6.2f}\n", row.ranks, row.meeting_ms, row.bytes,
               row.all_reduce_ms, row.floor_ms, row.all_reduce_ms / row.floor_ms);
  }
}

void print_json(const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    list.push_back({{"ranks", row.ranks},
                    {"meeting_ms", row.meeting_ms},
                    {"bytes", row.bytes},
                    {"all_reduce_ms", row.all_reduce_ms},
                    {"floor_ms", row.floor_ms}});
  }
  fmt::print("{}\n", list.dump());
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  int nodes = 1;
  std::vector<int> rank_counts;
  Plan plan;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string_view next = i + 1 < argc ? argv[i + 1] : "";
    const bool takes_number = argument == "--ranks" || argument == "--nodes" || argument == "--bytes";
    const auto number = takes_number && i + 1 < argc ? parse_number<int>(argv[++i]) : std::nullopt;
    if (argument == "--json") {
      json = true;
    } else if (argument == "--data-security" && (next == "tls" || next == "none")) {
      plan.encrypts = next == "tls";
      ++i;
    } else if (number && *number > 0) {
      if (argument == "--nodes") nodes = *number;
      if (argument == "--ranks") rank_counts.push_back(*number);
      if (argument == "--bytes") plan.sizes.push_back(static_cast<std::size_t>(*number));
    } else {
      const bool asks_for_help = argument == "--help" || argument == "-h";
      fmt::print(
          asks_for_help ? stdout : stderr,
          "usage: bench_allreduce [--json] [--data-security tls|none] [--nodes N] [--ranks R]... [--bytes "
          "B]...\n");
      return asks_for_help ? 0 : 2;
    }
  }
  if (plan.sizes.empty()) plan.sizes = usual_sizes;
  if (const World world = find_world(process_environment()); world.source != "alone") {
    const std::vector<Row> rows =
        run_rank(world, process_environment()("LOCKSTEP_NODE").value_or(""), plan, Clock::now());
    if (world.rank == 0) json ? print_json(rows) : print_table(rows);
    return 0;
  }
  if (rank_counts.empty()) rank_counts = {2, 4};
  std::vector<Row> rows;
  for (const int ranks : rank_counts) {
    const auto more = run_ranks(ranks, nodes, plan);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  json ? print_json(rows) : print_table(rows);
  return 0;
}
