#include "runtime/output/metrics.h"

#include <chrono>
#include <limits>

#include "runtime/output/console.h"
#include "runtime/output/run_files.h"
#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

TEST_CASE("quantiles of measurements, also of more than are kept") {
  Measurements few;
  CHECK(few.median_ms() == 0);
  for (const std::int64_t ms : {5, 1, 4, 2, 3}) few.add(ms * 1'000'000);
  CHECK(few.median_ms() == 3);
  CHECK(few.quantile_ms(1) == 5);
  Measurements many;
  for (std::int64_t i = 0; i < 100'000; ++i) many.add(7'000'000);
  CHECK(many.median_ms() == 7);
}

TEST_CASE("a run's medians, and JSON without NaN") {
  RunMetrics metrics;
  metrics.start();
  for (int step = 0; step < 30; ++step)
    metrics.step_done({.exposed_ns = 2'000'000, .skew_ns = 1'000'000}, 3'000'000, 64);
  Summary summary;
  metrics.fill(summary);
  CHECK(summary.exposed_comm_ms == 2);
  CHECK(summary.skew_ms == 1);
  CHECK(summary.data_wait_ms == 3);
  CHECK(summary.samples_per_s > 0);
  summary.final_loss = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(to_json(summary), tests::contains("\"final_loss\": null"));
}

TEST_CASE("console and log have each the figures of all steps since their own last line") {
  constexpr auto on_console = RunMetrics::Reader::console, in_log = RunMetrics::Reader::log;
  RunMetrics metrics;
  metrics.start();
  metrics.step_done({.exposed_ns = 1'000'000}, 2'000'000, 64);
  CHECK(metrics.take_window(on_console).data_wait_ms == 2);
  metrics.step_done({.exposed_ns = 3'000'000}, 4'000'000, 64);
  const Progress logged = metrics.take_window(in_log);
  CHECK(logged.data_wait_ms == 3);
  CHECK(logged.exposed_comm_ms == 2);
  CHECK(metrics.take_window(on_console).data_wait_ms == 4);
  CHECK(metrics.take_window(on_console).step_ms == 0);
}

TEST_CASE("a window ends with its last step, whenever it is read") {
  constexpr auto on_console = RunMetrics::Reader::console;
  RunMetrics metrics;
  metrics.start();
  const auto first_end = Clock::now();
  metrics.step_done({}, 0, 64, first_end);
  metrics.take_window(on_console);
  metrics.step_done({}, 0, 64, first_end + std::chrono::milliseconds(10));
  const Progress second = metrics.take_window(on_console);
  CHECK(second.step_ms == Approx(10));
  CHECK(second.samples_per_s == Approx(6400));
  metrics.step_done({}, 0, 64, first_end + std::chrono::milliseconds(30));
  CHECK(metrics.take_window(on_console).step_ms == Approx(20));
}

TEST_CASE(
    "samples per second are those of step 20 on, in a run of up to 20 steps of step 2 on, and of one step "
    "its own") {
  RunMetrics metrics;
  metrics.start();
  Clock::time_point ended = Clock::now();
  const auto step = [&](std::chrono::milliseconds time) {
    ended += time;
    metrics.step_done({}, 0, 64, ended);
  };
  step(std::chrono::seconds(5));
  Summary of_one;
  metrics.fill(of_one);
  CHECK(of_one.samples_per_s == Approx(64 / 5.0).epsilon(0.01));
  CHECK(of_one.step_ms_median == Approx(5000).epsilon(0.01));
  CHECK_THAT(ending_line({.steps = 1, .samples_per_s = 12.8}, "r"),
             tests::contains("done after 1 step, 13 samples/s, r"));
  for (int i = 2; i < 20; ++i) step(std::chrono::milliseconds(200));
  CHECK(metrics.samples_per_s() == Approx(64 / 0.2));
  step(std::chrono::milliseconds(100));
  CHECK(metrics.samples_per_s() == Approx(19 * 64 / 3.7));
  step(std::chrono::milliseconds(300));
  CHECK(metrics.samples_per_s() == Approx(2 * 64 / 0.4));
  step(std::chrono::milliseconds(100));
  CHECK(metrics.samples_per_s() == Approx(3 * 64 / 0.5));
}

TEST_CASE("no figure has the time between pause and resume") {
  constexpr int steps = 30;
  constexpr std::chrono::seconds step_time(1);
  RunMetrics metrics;
  const auto begin = Clock::now();
  metrics.start();
  Clock::time_point ended = Clock::now();
  Seconds unsure = ended - begin;  // of what was measured beside the pauses
  for (int step = 0; step < steps; ++step) {
    ended += step_time;
    metrics.step_done({}, 0, 64, ended);
    const auto before = Clock::now();
    metrics.pause();
    const auto paused = Clock::now();
    while (Clock::now() - paused < std::chrono::milliseconds(2)) continue;
    const auto away = Clock::now() - paused;
    metrics.resume();
    ended += away;
    unsure += Clock::now() - before - away;
  }
  Summary summary;
  metrics.fill(summary);
  CHECK(summary.samples_per_s >= 64);
  CHECK(summary.samples_per_s <= 11 * 64 / (11 - unsure.count()));
  CHECK(summary.step_ms_median <= 1000);
  CHECK(summary.step_ms_median >= 1000 * (1 - unsure.count()));
  const Progress all = metrics.take_window(RunMetrics::Reader::log);
  CHECK(all.samples_per_s >= steps * 64 / (steps + unsure.count()));
  CHECK(all.samples_per_s <= steps * 64 / (steps - unsure.count()));
}

TEST_CASE("what a rank waited follows from the exchange times of all, step by step") {
  const std::int64_t times[2][3] = {{5, 2, 9}, {3, 8, 4}};  // milliseconds of two ranks
  std::vector<RunMetrics> ranks(2);
  std::vector<std::string> transfers;
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank].start();
    for (const std::int64_t ms : times[rank]) ranks[rank].step_done({.transfer_ns = ms * 1'000'000}, 0, 1);
    transfers.push_back(ranks[rank].transfers());
  }
  const double skews[] = {2, 0};  // medians of 2 0 5 and of 0 6 0
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank].tell_skew(transfers);
    Summary summary;
    ranks[rank].fill(summary);
    CHECK(summary.skew_ms == skews[rank]);
    CHECK(summary.comm_ms == 3);  // of 3 2 4
  }
}

TEST_CASE("the last measurements, oldest first, also behind many") {
  Measurements few;
  for (const std::int64_t value : {1, 2, 3}) few.add(value);
  CHECK(few.last(2) == std::vector<std::int64_t>{2, 3});
  CHECK(few.last(9) == std::vector<std::int64_t>{1, 2, 3});
  Measurements many;
  for (std::int64_t i = 0; i < 100'000; ++i) many.add(i);
  CHECK(many.last(2) == std::vector<std::int64_t>{99'998, 99'999});
}

}  // namespace
}  // namespace lockstep::runtime
