#include <array>
#include <chrono>
#include <cstring>
#include <memory>

#include "comm/decorated_communicator.h"
#include "comm/make_communicator.h"
#include "comm/solo_communicator.h"
#include "comm/staged/staged_communicator.h"
#include "kernels/base/deadline.h"
#include "kernels/base/error.h"
#include "kernels/device.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/conformance.h"
#include "tests/unit/comm/ranks.h"
#include "tests/unit/comm/reference.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using tests::contains;

namespace {

const CommOptions ten_seconds{.timeout = Seconds(10)};

/// A group of threads, each with the CPU in the part of a GPU.
std::vector<std::string> run_staged(int size,
                                    const std::function<void(Communicator&, kernels::Stream&)>& body) {
  const std::string run_id = fresh_run_id();
  return run_threads(size, [&](int rank) {
    const auto device = kernels::make_cpu_device(1);
    const auto stream = device->make_stream();
    StagedCommunicator group(make_communicator(local_world(rank, size, run_id), ten_seconds), *device);
    body(group, *stream);
  });
}

/// A group that cannot tell waiting for peers from the transfer, as by MPI between hosts.
class UntellingGroup : public DecoratedCommunicator {
 public:
  explicit UntellingGroup(const World& world)
      : DecoratedCommunicator(std::make_unique<SoloCommunicator>(world)) {}

  bool tells_skew() const override { return false; }
  bool crosses_nodes() const override { return true; }
  std::unique_ptr<Arena> allocate_arena(DType dtype, std::int64_t elements) override {
    return inner().allocate_arena(dtype, elements);
  }
  using Communicator::all_reduce;
  ExchangeTiming all_reduce(std::span<const ArenaRange> ranges, ExchangeLabel label,
                            kernels::Stream& stream) override {
    return inner().all_reduce(ranges, label, stream);
  }
  ExchangeTiming reduce_scatter(const ArenaRange& range, ExchangeLabel label,
                                kernels::Stream& stream) override {
    return inner().reduce_scatter(range, label, stream);
  }
  using DecoratedCommunicator::all_gather;
  ExchangeTiming all_gather(const ArenaRange& range, ExchangeLabel label, kernels::Stream& stream) override {
    return inner().all_gather(range, label, stream);
  }
};

/// The process's clock, which stands still but for what `advance` adds.
class HandClock {
 public:
  HandClock() { Clock::halt(); }
  ~HandClock() { Clock::state() = before_; }
  HandClock(const HandClock&) = delete;

  static void advance(Clock::duration by) { Clock::state() += by.count(); }

 private:
  const Clock::rep before_ = Clock::state();
};

/// What is enqueued before each of the waits for it takes so long.
class SlowStream final : public tests::NoStream {
 public:
  void synchronize() override { HandClock::advance(waits_.at(next_++)); }

 private:
  std::array<milliseconds, 3> waits_{milliseconds(50), milliseconds(2), milliseconds(3)};
  std::size_t next_ = 0;
};

/// Waits 4 ms for a peer, and sums in 1 ms.
class SlowGroup final : public UntellingGroup {
 public:
  using UntellingGroup::all_reduce;
  using UntellingGroup::UntellingGroup;

  ExchangeTiming all_reduce(std::span<const ArenaRange>, ExchangeLabel, kernels::Stream&) override {
    HandClock::advance(milliseconds(5));
    return {.skew_ns = nanoseconds(milliseconds(4)).count(),
            .transfer_ns = nanoseconds(milliseconds(1)).count()};
  }
};

}  // namespace

TEST_CASE("a sum through the host takes its two copies too, but not what is computed before", "[comm]") {
  const auto device = kernels::make_cpu_device(1);
  const std::unique_ptr<Communicator> group = std::make_unique<StagedCommunicator>(
      std::make_unique<SlowGroup>(local_world(0, 2, fresh_run_id())), *device);
  const auto arena = group->allocate_arena(DType::f32, 64);
  const HandClock clock;
  SlowStream stream;
  const ExchangeTiming timing = group->all_reduce({arena.get(), 0, 64}, {}, stream);
  CHECK(timing.skew_ns == nanoseconds(milliseconds(4)).count());
  CHECK(timing.transfer_ns == nanoseconds(milliseconds(2 + 1 + 3)).count());
}

TEST_CASE("sums through the host tell skew from transfer if the host's do", "[comm]") {
  const auto device = kernels::make_cpu_device(1);
  const World world = local_world(0, 1, fresh_run_id());
  CHECK(StagedCommunicator(std::make_unique<SoloCommunicator>(world), *device).tells_skew());
  CHECK_FALSE(StagedCommunicator(std::make_unique<UntellingGroup>(world), *device).tells_skew());
}

TEST_CASE("sums through the host cross nodes if the host's do", "[comm]") {
  const auto device = kernels::make_cpu_device(1);
  const World world = local_world(0, 1, fresh_run_id());
  CHECK_FALSE(StagedCommunicator(std::make_unique<SoloCommunicator>(world), *device).crosses_nodes());
  CHECK(StagedCommunicator(std::make_unique<UntellingGroup>(world), *device).crosses_nodes());
}

TEST_CASE("ranks are on several nodes by their numbers, or by a name of their node", "[comm]") {
  World world = local_world(0, 2, fresh_run_id());
  CHECK_FALSE(spans_nodes(world, ""));
  CHECK(spans_nodes(world, "node 1"));
  world.local_size = 1;
  CHECK(spans_nodes(world, ""));
  CHECK_FALSE(spans_nodes(local_world(0, 1, fresh_run_id()), "node 1"));
}

TEST_CASE("a group of one has failed once it was aborted", "[comm]") {
  SoloCommunicator group(local_world(0, 1, fresh_run_id()));
  CHECK_FALSE(group.failed());
  group.abort("no more data");
  CHECK(group.failed());
}

TEST_CASE("sums through the host have the host's bits", "[comm]") {
  const int size = GENERATE(1, 2, 3);
  const auto errors = run_staged(size, [](Communicator& group, kernels::Stream& stream) {
    constexpr std::size_t first = 32;
    constexpr std::size_t count = 20000;
    const auto arena = group.allocate_arena(DType::f32, first + count + 16);
    const auto values = values_of<float>(*arena).subspan(first, count);
    for (int repeat = 0; repeat < 3; ++repeat) {
      for (std::size_t i = 0; i < count; ++i) values[i] = element<float>(group.world().rank, i);
      group.all_reduce({arena.get(), first, count}, {}, stream);
      for (std::size_t i = 0; i < count; ++i) {
        const float expected = reference<float>(0, group.world().size, i);
        if (std::memcmp(&values[i], &expected, sizeof(float)) != 0) throw std::runtime_error("sum");
      }
    }
    for (const float value : values_of<float>(*arena).first(first)) {
      if (value != 0) throw std::runtime_error("wrote before the range");
    }
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
}

TEST_CASE("reduce_scatter and all_gather of a staged group", "[comm]") {
  const int size = GENERATE(1, 2, 3);
  const auto errors = run_staged(size, [](Communicator& group, kernels::Stream& stream) {
    check_conformance(host_backend(group, stream));
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
}

TEST_CASE("the arena of a staged group is the device's, zeroed", "[comm]") {
  const int size = GENERATE(1, 2);
  const auto errors = run_staged(size, [](Communicator& group, kernels::Stream&) {
    const auto arena = group.allocate_arena(DType::f32, 25000);
    if (arena->bytes() != 100000) throw std::runtime_error("size");
    for (const float value : values_of<float>(*arena)) {
      if (value != 0) throw std::runtime_error("not zero");
    }
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
}

TEST_CASE("what is no sum of gradients is the inner group's", "[comm]") {
  const auto errors = run_staged(2, [](Communicator& group, kernels::Stream&) {
    double value = group.world().rank + 1;
    group.all_reduce_sum(std::span(&value, 1));
    if (value != 3) throw std::runtime_error("sum");
    if (group.all_gather(group.world().rank == 0 ? "a" : "b") != std::vector<std::string>{"a", "b"}) {
      throw std::runtime_error("all_gather");
    }
    std::byte byte{static_cast<unsigned char>(group.world().rank)};
    group.broadcast(std::span(&byte, 1), 1);
    if (byte != std::byte{1}) throw std::runtime_error("broadcast");
    if (group.backend() != "host") throw std::runtime_error("backend");
    if (group.world().rank == 1) group.abort("no more data");
    group.barrier();
  });
  for (const std::string& error : errors) CHECK_THAT(error, contains("rank 1: no more data"));
}

TEST_CASE("ranges outside of a staged arena are refused", "[comm]") {
  const auto errors = run_staged(2, [](Communicator& group, kernels::Stream& stream) {
    const auto arena = group.allocate_arena(DType::f32, 256);
    group.all_reduce({arena.get(), 128, 129}, {}, stream);
  });
  for (const std::string& error : errors) CHECK_THAT(error, contains("not in the arena"));
}
