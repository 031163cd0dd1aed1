// That the explorer finds what memory and futexes may do, by the small programs that memory models are told
// apart by (Boehm and Adve, "Foundations of the C++ concurrency memory model", PLDI 2008).
#include <memory>
#include <set>
#include <utility>

#include "tests/support/catch.h"
#include "tests/unit/comm/interleavings/explorer.h"

using namespace lockstep::interleavings;

namespace {

struct Pair {
  explicit Pair(Explorer& explorer) : x(explorer), y(explorer) {}
  Atomic x, y;
};

using Seen = std::set<std::pair<std::uint32_t, std::uint32_t>>;

/// What two threads may read that each write one location and read the other.
Seen store_buffering(std::memory_order order) {
  Explorer explorer;
  Seen seen;
  const auto result = explorer.explore([&]() -> Explorer::Threads {
    auto memory = std::make_shared<Pair>(explorer);
    auto read = std::make_shared<std::pair<std::uint32_t, std::uint32_t>>();
    auto done = std::make_shared<int>(0);
    const auto note = [&seen, read, done] {
      if (++*done == 2) seen.insert(*read);
    };
    return {[=] {
              memory->x.store(1, order);
              read->first = memory->y.load(order);
              note();
            },
            [=] {
              memory->y.store(1, order);
              read->second = memory->x.load(order);
              note();
            }};
  });
  CHECK(result.fault.empty());
  return seen;
}

/// A value that one thread writes before it sets a flag and the other reads when it sees the flag.
std::string message_passing(std::memory_order set, std::memory_order see) {
  struct Message {
    explicit Message(Explorer& explorer) : text(explorer), flag(explorer) {}
    Variable text;
    Atomic flag;
  };
  Explorer explorer;
  return explorer
      .explore([&]() -> Explorer::Threads {
        auto memory = std::make_shared<Message>(explorer);
        return {[=] {
                  memory->text.write(7);
                  memory->flag.store(1, set);
                },
                [=, &explorer] {
                  if (memory->flag.load(see) == 1) explorer.check(memory->text.read() == 7, "an old text");
                }};
      })
      .fault;
}

/// Of a thread that sleeps until another one wakes it, or forgets to.
std::string sleep_until(bool wakes, Explorer::Time time) {
  Explorer explorer(time);
  return explorer
      .explore([&]() -> Explorer::Threads {
        auto memory = std::make_shared<Pair>(explorer);
        return {[=] {
                  memory->x.store(1);
                  if (wakes) memory->x.wake_all();
                },
                [=] {
                  while (memory->x.load() == 0) memory->x.sleep_while(0);
                }};
      })
      .fault;
}

}  // namespace

TEST_CASE("what two threads write they may miss both, but not in sequential consistency", "[interleavings]") {
  const Seen in_some_order = {{0, 1}, {1, 0}, {1, 1}};
  CHECK(store_buffering(std::memory_order_seq_cst) == in_some_order);
  Seen any = in_some_order;
  any.insert({0, 0});
  CHECK(store_buffering(std::memory_order_relaxed) == any);
}

TEST_CASE("a flag carries what was written before it, unless it is relaxed", "[interleavings]") {
  CHECK(message_passing(std::memory_order_release, std::memory_order_acquire) == "");
  for (const auto& [set, see] : {std::pair{std::memory_order_relaxed, std::memory_order_acquire},
                                 {std::memory_order_release, std::memory_order_relaxed}}) {
    CHECK_THAT(message_passing(set, see),
               lockstep::tests::contains("thread 1 reads what another may just write"));
  }
}

TEST_CASE("two threads that write the same are seen", "[interleavings]") {
  Explorer explorer;
  const auto result = explorer.explore([&]() -> Explorer::Threads {
    auto memory = std::make_shared<Variable>(explorer);
    return {[=] { memory->write(1); }, [=] { memory->write(2); }};
  });
  CHECK_THAT(result.fault, lockstep::tests::contains("writes what another may just read or write"));
}

TEST_CASE("two threads that add lose nothing", "[interleavings]") {
  Explorer explorer;
  Seen seen;
  const auto result = explorer.explore([&]() -> Explorer::Threads {
    auto memory = std::make_shared<Pair>(explorer);
    const auto add = [=, &seen] {
      memory->x.fetch_add(1, std::memory_order_relaxed);
      if (memory->y.fetch_add(1) == 1) seen.insert({memory->x.load(std::memory_order_relaxed), 0});
    };
    return {add, add};
  });
  CHECK(result.fault.empty());
  CHECK(seen == Seen{{2, 0}});
}

TEST_CASE("a thread that nobody wakes is seen, unless time passes", "[interleavings]") {
  CHECK(sleep_until(true, Explorer::Time::stands_still) == "");
  CHECK_THAT(sleep_until(false, Explorer::Time::stands_still),
             lockstep::tests::contains("nobody wakes thread 1"));
  CHECK(sleep_until(false, Explorer::Time::passes) == "");
}
