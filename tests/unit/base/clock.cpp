#include <thread>

#include "kernels/base/deadline.h"
#include "kernels/base/signals.h"
#include "tests/support/catch.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

void let_pass(milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) std::this_thread::sleep_until(until);
}

TEST_CASE("the clock stands still while it is halted, and goes on from there") {
  const Deadline deadline = Deadline::in(Seconds(10));
  const Clock::time_point before = Clock::now();
  Clock::halt();
  const Clock::time_point halted = Clock::now();
  let_pass(milliseconds(50));
  CHECK(Clock::now() == halted);
  Clock::resume();
  const Clock::time_point after = Clock::now();
  CHECK(halted >= before);
  CHECK(after >= halted);
  CHECK(after - halted < milliseconds(50));
  let_pass(milliseconds(5));
  CHECK(Clock::now() - after >= milliseconds(5));
  CHECK(deadline.left() > Seconds(9));
}

TEST_CASE("times of suspension add up") {
  const auto steady = std::chrono::steady_clock::now();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 3; ++i) {
    Clock::halt();
    let_pass(milliseconds(20));
    Clock::resume();
  }
  const auto counted = Clock::now() - start;
  CHECK(std::chrono::steady_clock::now() - steady - counted >= milliseconds(60));
}

TEST_CASE("one ^C may arrive twice, a later one is a second") {
  Interrupts interrupts;
  const Clock::time_point start = Clock::now();
  CHECK_FALSE(interrupts.is_second(start));
  CHECK_FALSE(interrupts.is_second(start + milliseconds(200)));
  CHECK(interrupts.is_second(start + milliseconds(700)));
}

}  // namespace
}  // namespace lockstep
