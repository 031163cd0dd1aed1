// The shared memory of a node's ranks, in one mapping, so that the thread sanitizer sees what ranks that map
// it each for themselves do.
#include "comm/shm/barrier.h"

#include <thread>

#include "tests/support/catch.h"
#include "tests/support/slowness.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

constexpr std::uint32_t signature = 7;

Clock::time_point in_ten_seconds() {
  return Clock::now() + std::chrono::seconds(10);
}

void arrive(Barrier& barrier) {
  if (barrier.arrive_and_wait(signature, in_ten_seconds()) != Barrier::Outcome::all_here) {
    throw std::runtime_error("not all are here");
  }
}

}  // namespace

TEST_CASE("what a rank wrote into its mailbox all read after the round, while others write the next",
          "[comm]") {
  const int ranks = GENERATE(2, 3, 5);
  constexpr std::uint32_t rounds = 2000;
  const Segment segment = Segment::create(ranks, 1);
  const auto errors = run_threads(ranks, [&](int rank) {
    Barrier barrier(segment, rank);
    for (std::uint32_t round = 1; round <= rounds; ++round) {
      // One round: the mailbox of the one after the next may be written once the next has passed.
      const std::uint32_t now = barrier.next();
      const auto at = [&](int member) {
        return reinterpret_cast<std::uint32_t*>(segment.mailbox(member, now).data());
      };
      *at(rank) = 100 * round + static_cast<std::uint32_t>(rank);
      arrive(barrier);
      for (int member = 0; member < ranks; ++member) {
        if (*at(member) != 100 * round + static_cast<std::uint32_t>(member))
          throw std::runtime_error("stale");
      }
    }
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST_CASE("a rank that sleeps in a barrier is woken by the last that comes", "[comm]") {
  constexpr int rounds = 50;
  const Segment segment = Segment::create(2, 1);
  Clock::duration asleep{};
  const auto errors = run_threads(2, [&](int rank) {
    Barrier barrier(segment, rank);
    for (int round = 0; round < rounds; ++round) {
      if (rank == 1) {
        while (segment.rank_slot(1).sleepers.load() == 0) std::this_thread::yield();
      }
      const auto start = Clock::now();
      arrive(barrier);
      if (rank == 0) asleep += Clock::now() - start;
      arrive(barrier);
    }
  });
  CHECK(errors == std::vector<std::string>(2));
  // A sleep that nobody ends takes 20 ms; instrumented code hides it.
  CHECK(asleep < rounds * Seconds(0.01 * tests::slowness));
}

TEST_CASE("of all ranks one claims the report, and the first reason to abort stays", "[comm]") {
  Segment segment = Segment::create(4, 1);
  std::atomic<int> claims{0};
  CHECK(run_threads(4, [&](int rank) {
          segment.abort("reason of rank " + std::to_string(rank));
          const std::string first = segment.abort_reason();
          if (segment.claim_report()) ++claims;
          if (!segment.aborted() || segment.abort_reason() != first)
            throw std::runtime_error("another reason");
        }) == std::vector<std::string>(4));
  CHECK(claims == 1);
}
