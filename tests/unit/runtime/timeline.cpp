#include "runtime/performance/timeline.h"

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

/// Of a step of one micro-batch.
Timeline simulate_steps(const std::vector<Step>& steps, const std::vector<ExchangeTime>& exchanges) {
  const std::vector<PlannedWork> step{{.steps = steps, .work = work}};
  return simulate(step, exchanges);
}

Timeline simulate_one(ExchangeTime exchange) {
  return simulate_steps(one_bucket_behind_compute, {exchange});
}

TEST_CASE("timeline: without an exchange a step is the sum of its work") {
  const std::vector<Step> steps{{.kind = launch, .index = 0}, {.kind = launch, .index = 1}, {.kind = update}};
  const Timeline timeline = simulate_steps(steps, {});
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

TEST_CASE("timeline: what takes no time does not wait for an exchange that takes the whole core") {
  const std::vector<Step> steps{{.kind = launch, .index = 0}, on_queue(all_reduce, 0), {.kind = end_step}};
  CHECK(simulate_steps(steps, {{.seconds = 4, .core_seconds = 4}}).step == 2);
}

TEST_CASE("timeline: an exchange that waits for the core is faster once compute is done") {
  CHECK(simulate_one({.seconds = 4, .busy_seconds = 5}).step == 8);
  // Half of it is done in the 5 s of compute.
  CHECK(simulate_one({.seconds = 4, .busy_seconds = 10}).step == 2 + 5 + 2 + 1);
  CHECK(simulate_one({.seconds = 4, .core_seconds = 5, .busy_seconds = 10}).step == 2 + 10 + 1);
}

TEST_CASE("timeline: an exchange without compute behind it is exposed") {
  const std::vector<Step> steps{{.kind = launch, .index = 0},
                                {.kind = all_reduce_inline, .stream = StreamName::exchange},
                                {.kind = update}};
  const Timeline timeline = simulate_steps(steps, {{.seconds = 3, .core_seconds = 1}});
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
  CHECK(simulate_steps(steps, exchanges).step == 2 + 6 + 1);
  CHECK(simulate_steps(steps, {{.seconds = 1}, {.seconds = 6}}).step == 7 + 6);
}

TEST_CASE("timeline: micro-batches before the last are walked as often as there are") {
  const std::vector<Step> before{{.kind = launch, .index = 1}};
  const std::vector<Step> last{{.kind = launch, .index = 0}, {.kind = update}};
  const std::vector<PlannedWork> step{{.steps = before, .work = work, .repeats = 3},
                                      {.steps = last, .work = work}};
  CHECK(simulate(step, {}).step == 3 * 5 + 2 + 1);
}

Step of_step_before(Step::Kind kind, std::size_t index) {
  return {.kind = kind, .index = index, .deferred = true};
}

Step handed_over(std::size_t bucket) {
  return {.kind = all_reduce, .index = bucket, .queued = true};
}

Step offered(std::size_t bucket, double backward_done) {
  return {.kind = all_reduce,
          .index = bucket,
          .queued = true,
          .held = HeldExchange{.backward_done = backward_done}};
}

/// Forward reads bucket 2, then 1, then 0, and computes 2 s with each of the first two. Backward of 6 s has a
/// bucket ready every 2 s; the last, 2, goes with the control block. Updates take 1 s each.
const std::vector<Step> deferring{of_step_before(await_bucket, 2),
                                  of_step_before(update, 2),
                                  {.kind = launch, .index = 0},
                                  of_step_before(await_bucket, 1),
                                  of_step_before(update, 1),
                                  {.kind = launch, .index = 1},
                                  of_step_before(await_bucket, 0),
                                  of_step_before(update, 0),
                                  {.kind = launch, .index = 2},
                                  offered(0, 1 / 3.0),
                                  {.kind = launch, .index = 3},
                                  offered(1, 2 / 3.0),
                                  {.kind = launch, .index = 4},
                                  handed_over(2),
                                  {.kind = hand_over_held},
                                  {.kind = await_bucket, .index = 2},
                                  {.kind = keep_state}};
const WorkTimes forward_and_backward{{{launch, 0}, 2}, {{launch, 1}, 2}, {{launch, 2}, 2}, {{launch, 3}, 2},
                                     {{launch, 4}, 2}, {{update, 0}, 1}, {{update, 1}, 1}, {{update, 2}, 1}};

Timeline simulate_deferring(double seconds) {
  const std::vector<PlannedWork> step{{.steps = deferring, .work = forward_and_backward}};
  return simulate(step, std::vector<ExchangeTime>(3, {.seconds = seconds}));
}

TEST_CASE("timeline: where updates are left to the next step, its forward hides exchanges, too") {
  const Timeline fast = simulate_deferring(1);
  CHECK(fast.compute == Approx(13));
  CHECK(fast.exchange == Approx(3));
  CHECK(fast.held == 0);
  CHECK(fast.step == Approx(13 + 1));  // the last bucket's, which the step's end waits for
  // Backward ends before 0 is through. So 1 is held: 2 goes before it, and 1 is waited for behind 2's
  // forward.
  const Timeline slow = simulate_deferring(5);
  CHECK(slow.held == Approx(1));
  CHECK(slow.step == Approx(13 + (1 + 5) + 2));
}

}  // namespace
}  // namespace lockstep::runtime
