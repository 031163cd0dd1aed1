#include "runtime/plan/timeline.h"

#include <vector>

#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

using enum Step::Kind;

Step on_queue(Step::Kind kind, std::size_t index) {
  return {.kind = kind, .stream = StreamName::exchange, .index = index, .queued = true};
}

/// Bucket 0 is ready after the first of two kernels (2 s and 5 s) and exchanged behind the second; an update
/// of 1 s waits for it.
const std::vector<Step> one_bucket_behind_compute{
    {.kind = launch, .index = 0}, {.kind = record, .index = 0}, on_queue(wait, 0), on_queue(all_reduce, 0),
    on_queue(record, 1),          {.kind = launch, .index = 1}, {.kind = join},    {.kind = wait, .index = 1},
    {.kind = update, .index = 0}};
const WorkTimes work{{{launch, 0}, 2}, {{launch, 1}, 5}, {{update, 0}, 1}};

Timeline simulate_one(ExchangeTime exchange) {
  return simulate(one_bucket_behind_compute, work, std::vector{exchange});
}

TEST_CASE("timeline: without an exchange a step is the sum of its work") {
  const std::vector<Step> steps{{.kind = launch, .index = 0}, {.kind = launch, .index = 1}, {.kind = update}};
  const Timeline timeline = simulate(steps, work, {});
  CHECK(timeline.step == 8);
  CHECK(timeline.compute == 8);
  CHECK(timeline.exchange == 0);
  CHECK(timeline.exposed() == 0);
}

TEST_CASE("timeline: an exchange that is shorter than the compute behind it costs nothing") {
  const Timeline timeline = simulate_one({.seconds = 5});
  CHECK(timeline.step == 8);
  CHECK(timeline.exchange == 5);
  CHECK(timeline.exposed() == 0);
}

TEST_CASE("timeline: a step that waits for its link is bound by it") {
  const Timeline timeline = simulate_one({.seconds = 8});
  CHECK(timeline.step == 2 + 8 + 1);
  CHECK(timeline.exposed() == 3);
}

TEST_CASE("timeline: compute goes on with what an exchange leaves of its core") {
  CHECK(simulate_one({.seconds = 4, .core_seconds = 2}).step == 8 + 2);
  CHECK(simulate_one({.seconds = 4, .core_seconds = 4}).step == 8 + 4);
  CHECK(simulate_one({.seconds = 20, .core_seconds = 5}).step == 2 + 20 + 1);
}

TEST_CASE("timeline: an exchange without compute behind it is exposed") {
  const std::vector<Step> steps{{.kind = launch, .index = 0},
                                {.kind = all_reduce_inline, .stream = StreamName::exchange},
                                {.kind = update}};
  const Timeline timeline =
      simulate(steps, work, std::vector<ExchangeTime>{{.seconds = 3, .core_seconds = 1}});
  CHECK(timeline.step == 2 + 3 + 1);
  CHECK(timeline.exposed() == 3);
}

TEST_CASE("timeline: buckets are exchanged one after another") {
  const std::vector<Step> steps{{.kind = launch, .index = 0},
                                {.kind = record, .index = 0},
                                on_queue(wait, 0),
                                on_queue(all_reduce, 0),
                                {.kind = launch, .index = 1},
                                {.kind = record, .index = 1},
                                on_queue(wait, 1),
                                on_queue(all_reduce, 1),
                                {.kind = join}};
  const std::vector<ExchangeTime> exchanges{{.seconds = 6}, {.seconds = 1}};
  CHECK(simulate(steps, work, exchanges).step == 2 + 6 + 1);
  CHECK(simulate(steps, work, std::vector<ExchangeTime>{{.seconds = 1}, {.seconds = 6}}).step == 7 + 6);
}

}  // namespace
}  // namespace lockstep::runtime
