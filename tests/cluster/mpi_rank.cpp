// One rank of tests/cluster/mpi.cpp, started by mpirun: plays the scenario that its argument names and tells
// by "passed", or by an error's line and exit code.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

#include "comm/mpi/library.h"
#include "comm/world/world.h"
#include "kernels/base/error.h"
#include "kernels/base/half.h"
#include "tests/support/no_stream.h"
#include "tests/unit/comm/conformance.h"

namespace lockstep::comm {
namespace {

using tests::NoStream;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(fmt::format("not so: {}", what));
}

std::unique_ptr<Communicator> open_group(const World& world, Seconds timeout = Seconds(20)) {
  return make_mpi_communicator(world, {.timeout = timeout});
}

template <class Number>
Number element_of(std::size_t index, int rank) {
  return static_cast<Number>(static_cast<double>(index % 7) + rank);  // small: sums are exact
}

template <class Number>
void check_sum(Communicator& group, DType dtype, std::size_t first, std::size_t count) {
  const World& world = group.world();
  const auto arena = group.allocate_arena(dtype, static_cast<std::int64_t>(first + count));
  const ArenaRange range{arena.get(), static_cast<std::int64_t>(first), static_cast<std::int64_t>(count)};
  auto* const values = reinterpret_cast<Number*>(range.data());
  for (std::size_t i = 0; i < count; ++i) values[i] = element_of<Number>(i, world.rank);
  NoStream stream;
  const auto timing = group.all_reduce(range, {.bucket = 0, .what = "p"}, stream);
  require(timing.transfer_ns > 0, "the transfer took time");
  const double ranks = world.size * (world.size - 1) / 2.0;
  for (std::size_t i = 0; i < count; ++i) {
    require(static_cast<double>(values[i]) == static_cast<double>(i % 7) * world.size + ranks,
            "the sum is right");
  }
}

/// 1 + 2^-9 - 1 on three ranks: bf16 has 8 bits, so summing in bf16 would lose the middle term.
template <class Half>
void check_sum_of_halves(Communicator& group, DType dtype, float small) {
  const auto arena = group.allocate_arena(dtype, 1);
  auto* const values = reinterpret_cast<Half*>(arena->data());
  const float terms[] = {1.0F, small, -1.0F};
  narrow(terms[group.world().rank], values[0]);
  NoStream stream;
  group.all_reduce(all_of(*arena), {}, stream);
  require(widen(values[0]) == small, "halves are summed in f32");
}

/// For three ranks.
void play_collectives(const World& world) {
  const auto group = open_group(world);
  require(group->backend() == "mpi", "the name");
  constexpr std::size_t most = 1'500'000;  // three pieces and a rest
  require(group->allocate_arena(DType::u8, 1000)->data()[999] == std::byte{0}, "the arena is zeroed");
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{524'289}, most}) {
    check_sum<float>(*group, DType::f32, 16, count);
  }
  check_sum<double>(*group, DType::f64, 0, 1000);
  check_sum_of_halves<BFloat16>(*group, DType::bf16, 0x1p-9F);
  check_sum_of_halves<Float16>(*group, DType::f16, 0x1p-12F);

  std::vector<double> sums{1.0, static_cast<double>(world.rank)};
  group->all_reduce_sum(sums);
  require(sums == std::vector<double>{3, 3}, "sums of doubles");

  std::string text = world.rank == 2 ? "from 2" : "......";
  group->broadcast(std::as_writable_bytes(std::span(text)), 2);
  require(text == "from 2", "the broadcast");

  const auto texts = group->all_gather(std::string(static_cast<std::size_t>(world.rank) * 3, 'x'));
  require(texts == std::vector<std::string>{"", "xxx", "xxxxxx"}, "the texts");
  group->barrier();
}

void play_conformance(const World& world) {
  const auto group = open_group(world);
  NoStream stream;
  testing::check_conformance(testing::host_backend(*group, stream, testing::SumOrder::unknown));
}

/// Rank 1 never comes.
void play_timeout(const World& world) {
  const auto group = open_group(world, Seconds(1));
  const auto arena = group->allocate_arena(DType::f32, 4);
  NoStream stream;
  if (world.rank == 1) pause();
  group->all_reduce(all_of(*arena), {.bucket = 3, .what = "fc.weight"}, stream);
}

/// Rank 1 comes to MPI_Init, and never to MPI_Finalize.
void play_no_finalize(const World& world) {
  const auto group = open_group(world, Seconds(1));
  group->barrier();
  if (world.rank == 1) pause();
}

/// Rank 1 fails by itself while rank 0 waits for it.
void play_failure(const World& world) {
  const auto group = open_group(world);
  if (world.rank == 1) throw DataError("file x, offset 3: damaged");
  group->barrier();
}

void play_abort(const World& world) {
  const auto group = open_group(world);
  require(!group->failed(), "a group has not failed yet");
  if (world.rank == 1) {
    group->abort("enough");
    require(group->failed(), "a group that was aborted has failed");
  }
  group->barrier();
}

void play_rendezvous(const World& world) {
  auto rendezvous = open_mpi_rendezvous(world);
  require(
      rendezvous->broadcast(world.rank == 0 ? "10.0.0.1 29500 secret" : "mine") == "10.0.0.1 29500 secret",
      "rank 0's text arrives");
  require(rendezvous->broadcast(world.rank == 0 ? "" : "mine").empty(), "an empty one too");
  open_group(world)->barrier();  // joins the MPI that runs
  rendezvous.reset();
  try {
    open_group(world);
  } catch (const CommError&) {
    return;
  }
  throw std::logic_error("MPI started a second time");
}

void play_other_world(const World& world) {
  World other = world;
  other.size += 1;
  open_group(other);
}

const std::map<std::string, std::function<void(const World&)>> scenarios{
    {"collectives", play_collectives}, {"conformance", play_conformance}, {"timeout", play_timeout},
    {"no-finalize", play_no_finalize}, {"failure", play_failure},         {"abort", play_abort},
    {"rendezvous", play_rendezvous},   {"other-world", play_other_world}};

}  // namespace
}  // namespace lockstep::comm

int main(int, char** argv) {
  using namespace lockstep;
  try {
    comm::scenarios.at(argv[1])(comm::find_world(comm::process_environment()));
    fmt::print("passed\n");
    return 0;
  } catch (const Error& error) {
    fmt::print("{}\n", error.what());
    std::fflush(stdout);
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
