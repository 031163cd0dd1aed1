#include "runtime/step/exchange_order.h"

#include <future>
#include <stdexcept>
#include <vector>

#include "tests/support/allocation_count.h"
#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t holdable = 6;
constexpr std::size_t last = holdable;

/// A queue that notes what it ran, behind a gate if one is given.
struct Exchanges {
  std::vector<std::size_t> done;
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  ExchangeQueue queue{holdable + 1, [this](std::size_t part) {
                        opened.wait();
                        done.push_back(part);
                      }};
  ExchangeOrder order{queue, holdable + 1, holdable};

  std::vector<std::size_t> run_step() {
    done.clear();
    for (std::size_t exchange = 0; exchange < holdable; ++exchange) order.hand_over(exchange, exchange, true);
    order.hand_over(last, last, false);
    order.hand_over_held();
    for (std::size_t exchange = 0; exchange <= holdable; ++exchange) order.wait(exchange);
    return done;
  }
};

TEST_CASE("exchange order: at first all go as they are ready") {
  Exchanges exchanges;
  exchanges.gate.set_value();
  CHECK(exchanges.run_step() == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("exchange order: those that do not go early come behind the last, and the last of them first") {
  Exchanges exchanges;
  exchanges.gate.set_value();
  exchanges.order.follow(-3);
  CHECK(exchanges.run_step() == std::vector<std::size_t>{0, 2, 4, 6, 5, 3, 1});
  exchanges.order.follow(-100);
  CHECK(exchanges.run_step() == std::vector<std::size_t>{6, 5, 4, 3, 2, 1, 0});
  exchanges.order.follow(100);
  CHECK(exchanges.run_step() == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("exchange order: what is held takes no memory anew, in the first step neither") {
  Exchanges exchanges;
  exchanges.gate.set_value();
  exchanges.order.follow(-100);
  const int allocations = [&] {
    const tests::AllocationCount count;
    for (std::size_t exchange = 0; exchange < holdable; ++exchange)
      exchanges.order.hand_over(exchange, exchange, true);
    exchanges.order.hand_over(last, last, false);
    exchanges.order.hand_over_held();
    for (std::size_t exchange = 0; exchange <= holdable; ++exchange) exchanges.order.wait(exchange);
    return count.value();
  }();
  CHECK(allocations == 0);
}

TEST_CASE(
    "exchange order: a queue with a backlog at the end of backward votes for fewer, an idle one for more") {
  Exchanges exchanges;
  exchanges.order.hand_over(0, 0, true);
  exchanges.order.hand_over(1, 1, true);
  exchanges.order.hand_over(2, 2, true);
  exchanges.order.hand_over(last, last, false);
  CHECK(exchanges.order.vote() < 0);
  exchanges.order.hand_over_held();
  exchanges.gate.set_value();
  exchanges.order.wait(last);
  exchanges.order.follow(-100);
  exchanges.run_step();
  CHECK(exchanges.order.vote() > 0);
}

TEST_CASE("exchange order: an exchange's error reaches who waits for it or for a later one") {
  ExchangeQueue queue(2, [](std::size_t part) {
    if (part == 0) throw std::runtime_error("lost");
  });
  ExchangeOrder order(queue, 2, 1);
  order.hand_over(0, 0, true);
  order.hand_over(1, 1, false);
  CHECK_THROWS_WITH(order.wait(1), "lost");
  CHECK_THROWS_WITH(order.wait(0), "lost");
}

}  // namespace
}  // namespace lockstep::runtime
