#include "runtime/step/exchange_turns.h"

#include <sched.h>

#include <thread>

#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

/// A queue that takes turns, and the policy of its thread.
struct Turns {
  int policy = -1;
  ExchangeQueue queue{1, [this](std::size_t) { policy = ::sched_getscheduler(0); }};
  ExchangeTurns turns{queue};

  int policy_after_walks(int walks, std::int64_t waited_of_100_ns) {
    for (int walk = 0; walk < walks; ++walk) turns.end_walk(waited_of_100_ns, 100);
    queue.post(0);
    queue.wait_all();
    return policy;
  }
};

TEST_CASE(
    "exchange turns: the queue interrupts kernels until steps hardly wait for it, and again when they do") {
  Turns turns;
  CHECK(turns.policy_after_walks(0, 0) == SCHED_OTHER);
  CHECK(turns.policy_after_walks(15, 0) == SCHED_OTHER);
  CHECK(turns.policy_after_walks(1, 0) == SCHED_BATCH);
  CHECK_FALSE(turns.turns.interrupts());
  CHECK(turns.policy_after_walks(16, 20) == SCHED_BATCH);
  CHECK(turns.policy_after_walks(16, 30) == SCHED_OTHER);
  CHECK(turns.turns.interrupts());
  CHECK(turns.policy_after_walks(16, 20) == SCHED_OTHER);
}

TEST_CASE("exchange turns: the mean of many walks decides") {
  Turns turns;
  CHECK(turns.policy_after_walks(8, 30) == SCHED_OTHER);
  CHECK(turns.policy_after_walks(8, 0) == SCHED_BATCH);
}

TEST_CASE("exchange turns: a policy that the user gave stays") {
  int before = -1;
  int after = -1;
  // A thread of its own, as policies are inherited.
  std::thread rank([&] {
    const sched_param none{};
    CHECK(::sched_setscheduler(0, SCHED_BATCH, &none) == 0);
    Turns turns;
    before = turns.policy_after_walks(16, 0);
    after = turns.policy_after_walks(16, 90);
  });
  rank.join();
  CHECK(before == SCHED_BATCH);
  CHECK(after == SCHED_BATCH);
}

}  // namespace
}  // namespace lockstep::runtime
