#include "runtime/run/run_plans.h"

#include "comm/make_communicator.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace lockstep::runtime {
namespace {

using model::Tensor;

TEST_CASE("the largest batch that fits is found with few plans") {
  for (const std::int64_t largest : {0, 1, 2, 7, 511, 4095}) {
    int plans = 0;
    const auto fits = [&](std::int64_t batch_size) {
      ++plans;
      return batch_size <= largest;
    };
    CHECK(largest_batch(4096, fits) == largest);
    CHECK(plans <= 12);
  }
  CHECK(largest_batch(1, [](std::int64_t) { return true; }) == 0);
}

TEST_CASE(
    "where the rank's own thread exchanges, updates are deferred between nodes, and can be sharded on one") {
  const auto cpu = kernels::make_cpu_device(1);
  for (const bool crosses_nodes : {false, true}) {
    for (const char* backend : {"host", "auto"}) {
      CHECK(defers_updates(*cpu, backend, crosses_nodes) == crosses_nodes);
      CHECK(can_shard_updates(*cpu, backend, crosses_nodes) == !crosses_nodes);
    }
    CHECK_FALSE(defers_updates(*cpu, "mpi", crosses_nodes));
    CHECK_FALSE(can_shard_updates(*cpu, "mpi", crosses_nodes));
  }
}

TEST_CASE("ranks update a shard each if they are asked to and can, else the run is refused") {
  Options options;
  const auto shards = [&](int ranks, bool can) {
    return training_request(options, {}, ranks, {.shards_updates = can}).schedule.shards_updates;
  };
  CHECK_FALSE(shards(2, true));
  options.shard_optimizer = true;
  CHECK(shards(2, true));
  CHECK_FALSE(shards(1, false));
  CHECK_THROWS_WITH(shards(2, false), tests::contains("one node that compute on CPUs"));
  options.clip_grad_norm = 1;
  CHECK_THROWS_WITH(shards(2, true), tests::contains("--clip-grad-norm"));
}

TEST_CASE("ranks that share a GPU have equal parts of what it has free") {
  const std::vector<GpuMemory> apart{{.bytes = 900, .gpu = "a 0"}, {.bytes = 800, .gpu = "a 1"}};
  CHECK(least_share(apart).bytes == 800);
  CHECK(least_share(apart).rank == 1);
  CHECK(least_share(apart).words() == " free");
  // Three ranks on two GPUs of one host, one on another host's.
  const std::vector<GpuMemory> shared{{.bytes = 900, .gpu = "a 0"},
                                      {.bytes = 500, .gpu = "a 1"},
                                      {.bytes = 898, .gpu = "a 0"},
                                      {.bytes = 600, .gpu = "b 0"}};
  CHECK(least_share(shared).bytes == 449);
  CHECK(least_share(shared).rank == 2);
  CHECK(least_share(shared).words() == " free for each of its 2 ranks");
}

struct TenSamples : data::Dataset {
  std::int64_t size() const override { return 10; }
  const data::SampleSpec& spec() const override { return sample; }
  void get(std::int64_t, std::int64_t, std::span<std::byte>, std::span<std::byte>) const override {}
  data::SampleSpec sample{.input_shape = {3}, .num_classes = 2};
};

/// Plans of a run in batches of 4, whose last one has 2 samples; how many.
std::size_t plans_of(Tensor (*forward)(Tensor)) {
  Options options;
  options.epochs = 1;
  options.batch_size = 4;
  const TrainingTask task{.model = {.name = "m", .forward = forward},
                          .input = {.shape = {3}, .num_classes = 2},
                          .train_set = std::make_shared<TenSamples>(),
                          .test_set = nullptr};
  Session session;
  session.device = kernels::make_cpu_device(1);
  session.communicator = comm::make_communicator({}, {});
  return plan_run(options, task, batching_of(options, {}, 10), session, std::nullopt).all.size();
}

TEST_CASE("parameters whose names or shapes follow the size of the batch are refused") {
  CHECK(plans_of([](Tensor x) { return linear(x, "fc", 2); }) == 2);
  CHECK(
      tests::message_of<UsageError>([] {
        plans_of([](Tensor x) {
          const Tensor y = linear(x, "fc", 2);
          return add(y, parameter(x.graph(), "p", {x.shape()[0], 2}, {.bound = 1}));
        });
      }) ==
      "model 'm' has parameter 'p' 4x2 for a batch of 4, and 'p' 2x2 for a batch of 2: names and shapes must "
      "not follow the batch");
  CHECK_THAT(tests::message_of<UsageError>([] {
               plans_of([](Tensor x) {
                 const Tensor y = linear(x, "fc", 2);
                 return x.shape()[0] == 4 ? add(y, parameter(x.graph(), "q", {2}, {.bound = 1})) : y;
               });
             }),
             tests::contains("parameter 'q' 2 for a batch of 4, and none for a batch of 2"));
}

}  // namespace
}  // namespace lockstep::runtime
