// comm/shm/barrier.cpp itself in every order of its ranks' accesses, and with every value that C++ allows
// them to read. Here comm/shm/segment.h is the twin in this folder.
#include "comm/shm/barrier.h"

#include <memory>

#include "tests/support/catch.h"

using lockstep::Clock;
using lockstep::comm::Barrier;
using lockstep::comm::Segment;
using namespace lockstep::interleavings;
using Outcome = Barrier::Outcome;

namespace {

constexpr std::uint32_t signature = 7;
constexpr auto never = Clock::time_point::max();
constexpr auto at_once = Clock::time_point::min();

/// The memory of a node's ranks: the segment, and of each rank the mailboxes of even and odd rounds.
struct Node {
  Node(Explorer& explorer, int ranks) : segment(explorer, ranks) {
    for (int box = 0; box < 2 * ranks; ++box) mailboxes.emplace_back(explorer);
  }

  Variable& mailbox(int rank, std::uint32_t round) {
    return mailboxes[2 * static_cast<std::size_t>(rank) + round % 2];
  }

  Segment segment;
  std::vector<Variable> mailboxes;
};

std::uint32_t letter(int rank, std::uint32_t round) {
  return 10 * round + static_cast<std::uint32_t>(rank);
}

/// One round: a rank's letter is in its mailbox before it arrives, and then it reads those of all.
void exchange(Explorer& explorer, Node& node, Barrier& barrier, int rank) {
  const std::uint32_t round = barrier.next();
  explorer.begin_phase(round);
  node.mailbox(rank, round).write(letter(rank, round));
  explorer.check(barrier.arrive_and_wait(signature, never) == Outcome::all_here, "not all are here");
  for (int peer = 0; peer < node.segment.ranks(); ++peer)
    explorer.check(node.mailbox(peer, round).read() == letter(peer, round), "a letter of another round");
}

using Rank = std::function<void(Node&, Barrier&, int rank)>;

Explorer::Result explore(Explorer& explorer, const std::vector<Rank>& ranks) {
  return explorer.explore([&] {
    auto node = std::make_shared<Node>(explorer, static_cast<int>(ranks.size()));
    Explorer::Threads threads;
    for (const Rank& act : ranks) {
      threads.push_back([node, act, rank = static_cast<int>(threads.size())] {
        Barrier barrier(node->segment, rank);
        act(*node, barrier, rank);
      });
    }
    return threads;
  });
}

struct Exchanges {
  int ranks;
  int rounds;
};

void check_letters(Exchanges exchanges) {
  Explorer explorer;
  const Rank rank = [&](Node& node, Barrier& barrier, int own) {
    for (int round = 0; round < exchanges.rounds; ++round) exchange(explorer, node, barrier, own);
  };
  const auto result = explore(explorer, std::vector(static_cast<std::size_t>(exchanges.ranks), rank));
  CHECK(result.fault == "");
  CHECK(result.states > 10'000);  // 32,409 and 604,184: an explorer that stops early is seen
}

}  // namespace

TEST_CASE("in every order two ranks read each other's letters, and sleepers are woken", "[interleavings]") {
  check_letters({.ranks = 2, .rounds = 3});
}

// 20 times as many states.
TEST_CASE("in every order three ranks read each other's letters, and sleepers are woken", "[.][matrix]") {
  check_letters({.ranks = 3, .rounds = 1});
}

TEST_CASE("in every order both ranks learn that their calls do not match, and only then", "[interleavings]") {
  Explorer explorer;
  const Rank rank = [&](Node&, Barrier& barrier, int own) {
    explorer.check(barrier.arrive_and_wait(signature, never) == Outcome::all_here, "the first calls match");
    const auto other = signature + static_cast<std::uint32_t>(own);
    explorer.check(barrier.arrive_and_wait(other, never) == Outcome::mismatch,
                   "the second calls do not match");
    explorer.check(barrier.mismatched() == std::vector{1 - own}, "another rank's call does not match");
  };
  CHECK(explore(explorer, {rank, rank}).fault == "");
}

TEST_CASE("in every order a rank that leaves behind a round is missed in the next one alone",
          "[interleavings]") {
  Explorer explorer(Explorer::Time::passes);
  const Rank stays = [&](Node&, Barrier& barrier, int) {
    explorer.check(barrier.arrive_and_wait(signature, never) == Outcome::all_here, "it had come");
    explorer.check(barrier.arrive_and_wait(signature, never) == Outcome::peer_left, "it had left");
  };
  const Rank leaves = [&](Node&, Barrier& barrier, int) {
    explorer.check(barrier.arrive_and_wait(signature, never) == Outcome::all_here, "the other had come");
    barrier.detach();
  };
  CHECK(explore(explorer, {stays, leaves}).fault == "");
}

TEST_CASE("in every order an abort ends the wait", "[interleavings]") {
  Explorer explorer(Explorer::Time::passes);
  const Rank waits = [&](Node&, Barrier& barrier, int) {
    explorer.check(barrier.arrive_and_wait(signature, never) == Outcome::aborted, "the wait was aborted");
  };
  const Rank aborts = [](Node& node, Barrier&, int) { node.segment.abort(); };
  CHECK(explore(explorer, {waits, aborts}).fault == "");
}

TEST_CASE("in every order a wait that timed out can be taken up again", "[interleavings]") {
  Explorer explorer;
  const Rank impatient = [&](Node&, Barrier& barrier, int) {
    const Outcome first = barrier.arrive_and_wait(signature, at_once);
    explorer.check(first == Outcome::all_here || first == Outcome::timed_out, "neither here nor late");
    if (first == Outcome::timed_out)
      explorer.check(barrier.wait(never) == Outcome::all_here, "the other comes in the end");
  };
  const Rank patient = [&](Node&, Barrier& barrier, int) {
    explorer.check(barrier.arrive_and_wait(signature, never) == Outcome::all_here, "the other is here");
  };
  CHECK(explore(explorer, {impatient, patient}).fault == "");
}
