#include "runtime/step/exchange_queue.h"

#include <sched.h>
#include <sys/resource.h>

#include <future>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernels/base/deadline.h"
#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

TEST_CASE("exchanges run in order, and waiting sees all of them") {
  std::vector<std::size_t> seen;
  ExchangeQueue queue(3, [&](std::size_t bucket) { seen.push_back(bucket); });
  std::vector<std::size_t> wanted;
  for (std::size_t step = 0; step < 500; ++step) {
    for (std::size_t bucket = 0; bucket < 3; ++bucket) {
      queue.post(bucket);
      wanted.push_back(bucket);
    }
    queue.wait_all();
    REQUIRE(seen == wanted);
  }
}

TEST_CASE("a queue's mean time is that of what was done since it was last taken") {
  constexpr std::chrono::milliseconds long_time(20);
  ExchangeQueue queue(2, [&](std::size_t bucket) {
    for (const auto start = Clock::now(); bucket == 0 && Clock::now() - start < long_time;) {
    }
  });
  CHECK_FALSE(queue.take_mean_time());
  queue.post(0);
  queue.wait_all();
  CHECK(queue.take_mean_time().value() >= long_time);
  CHECK_FALSE(queue.take_mean_time());

  const auto start = Clock::now();
  queue.post(1);
  queue.wait_all();
  CHECK(queue.take_mean_time().value() <= Clock::now() - start);
}

TEST_CASE("an exchange's error reaches the waiting thread; later exchanges are not tried") {
  int runs = 0;
  ExchangeQueue queue(2, [&](std::size_t) {
    ++runs;
    throw std::runtime_error("lost");
  });
  queue.post(0);
  queue.post(1);
  CHECK_THROWS_WITH(queue.wait_all(), "lost");
  CHECK(runs == 1);
}

TEST_CASE("a queue holds as many as it was made for, and more than that wait for room") {
  const std::size_t capacity = GENERATE(1, 3000);
  constexpr std::size_t posted = 3000;
  std::promise<void> may_begin;
  std::vector<std::size_t> seen;
  ExchangeQueue queue(capacity, [&, begin = may_begin.get_future().share()](std::size_t bucket) {
    begin.wait();
    seen.push_back(bucket);
  });
  if (capacity < posted) may_begin.set_value();
  for (std::size_t bucket = 0; bucket < posted; ++bucket) queue.post(bucket);
  if (capacity == posted) may_begin.set_value();
  queue.wait_all();
  std::vector<std::size_t> wanted(posted);
  std::iota(wanted.begin(), wanted.end(), std::size_t{0});
  CHECK(seen == wanted);
}

TEST_CASE("the thread of exchanges has the policy and the nice value of the process") {
  std::pair<int, int> of_exchange;
  const auto of_this_thread = [] {
    return std::pair(::sched_getscheduler(0), ::getpriority(PRIO_PROCESS, 0));
  };
  // A thread of its own, as both are inherited and a nice value does not come back.
  std::thread rank([&] {
    const sched_param none{};
    CHECK(::sched_setscheduler(0, SCHED_BATCH, &none) == 0);
    CHECK(::setpriority(PRIO_PROCESS, 0, 7) == 0);
    ExchangeQueue queue(1, [&](std::size_t) { of_exchange = of_this_thread(); });
    queue.post(0);
    queue.wait_all();
  });
  rank.join();
  CHECK(of_exchange == std::pair(SCHED_BATCH, 7));
}

TEST_CASE("a queue that never had work ends") {
  ExchangeQueue queue(0, [](std::size_t) {});
}

}  // namespace
}  // namespace lockstep::runtime
