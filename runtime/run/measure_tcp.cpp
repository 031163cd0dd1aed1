#include "runtime/run/measure_tcp.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>

#include "comm/communicator.h"
#include "comm/make_communicator.h"
#include "comm/net/credentials.h"
#include "comm/net/tcp.h"
#include "kernels/base/deadline.h"
#include "kernels/device.h"
#include "runtime/machine/local_ranks.h"

namespace lockstep::runtime {
namespace {

constexpr int ranks = 2;
constexpr int rounds = 15;
constexpr std::int64_t small = 16;
constexpr std::int64_t large = std::int64_t{1} << 20;

struct Sample {
  double seconds;
  double core_seconds;
};

double core_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

/// The median of each, of an all-reduce of so many elements.
Sample measure(comm::Communicator& pair, const comm::Arena& arena, std::int64_t elements,
               kernels::Stream& stream) {
  std::vector<double> seconds;
  std::vector<double> cores;
  for (int round = 0; round < rounds; ++round) {
    pair.barrier();
    const auto start = Clock::now();
    const double core_start = core_seconds();
    pair.all_reduce({.arena = &arena, .first = 0, .count = elements}, {.behind_compute = true}, stream);
    seconds.push_back(Seconds(Clock::now() - start).count());
    cores.push_back(core_seconds() - core_start);
  }
  std::ranges::sort(seconds);
  std::ranges::sort(cores);
  return {seconds[rounds / 2], cores[rounds / 2]};
}

std::vector<double> measure_rank(const comm::World& world, const comm::CommOptions& options) {
  const auto pair = comm::make_communicator(world, options);
  const auto device = kernels::make_cpu_device(1);
  const auto stream = device->make_stream();
  const auto arena = pair->allocate_arena(DType::f32, large);
  const Sample latency = measure(*pair, *arena, small, *stream);
  const Sample bulk = measure(*pair, *arena, large, *stream);
  constexpr double bytes = static_cast<double>((large - small) * static_cast<std::int64_t>(sizeof(float)));
  return {latency.seconds, std::max(0.0, bulk.core_seconds - latency.core_seconds) / bytes};
}

}  // namespace

TcpTimes measure_tcp(const Options& options) {
  // The ranks find secret and port in what they inherit; the port is free until rank 0 takes it.
  ::setenv("LOCKSTEP_TOKEN", comm::make_secret().c_str(), 1);
  const int port = comm::local_port(comm::listen_tcp("127.0.0.1", 0).get());
  const std::vector<double> times = run_local_ranks(ranks, ranks, [&](comm::World world) {
    world.master_port = port;
    world.master_port_is_ours = true;
    return measure_rank(world, {.timeout = Seconds(options.timeout),
                                .encrypt_data = options.data_security == "tls",
                                .node = fmt::format("node {}", world.rank)});
  });
  return {.latency = times[0], .core_seconds_per_byte = times[1]};
}

}  // namespace lockstep::runtime
