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

/// Steps that hand over exchanges, ready when such shares of backward are done.
std::vector<Step> held(const std::vector<double>& ready) {
  std::vector<Step> steps;
  for (const double share : ready)
    steps.push_back({.queued = true, .held = HeldExchange{.backward_done = share}});
  steps.push_back({.queued = true});
  return steps;
}

const std::vector<double> evenly{0, 1 / 6.0, 2 / 6.0, 3 / 6.0, 4 / 6.0, 5 / 6.0};

/// A queue that notes what it ran, behind a gate if one is given.
struct Exchanges {
  explicit Exchanges(const std::vector<double>& ready = evenly) : order(queue, holdable + 1, held(ready)) {}

  std::vector<std::size_t> done;
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  ExchangeQueue queue{holdable + 1, [this](std::size_t part) {
                        opened.wait();
                        done.push_back(part);
                      }};
  ExchangeOrder order;

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

/// Such a share of backward an exchange takes from now on.
void slow_down(Exchanges& exchanges, double share) {
  for (int step = 0; step < 300; ++step) exchanges.order.follow(share);
}

TEST_CASE("exchange order: those that are held come behind the last, and the last of them first") {
  Exchanges exchanges;
  exchanges.gate.set_value();
  slow_down(exchanges, 0.26);
  CHECK(exchanges.run_step() == std::vector<std::size_t>{0, 1, 3, 4, 6, 5, 2});
  slow_down(exchanges, 100);
  CHECK(exchanges.run_step() == std::vector<std::size_t>{0, 6, 5, 4, 3, 2, 1});
  slow_down(exchanges, 0);
  CHECK(exchanges.run_step() == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("exchange order: it settles within the first steps") {
  Exchanges exchanges;
  exchanges.gate.set_value();
  for (int step = 0; step < 3; ++step) exchanges.order.follow(0.26);
  CHECK(exchanges.run_step() == std::vector<std::size_t>{0, 1, 3, 4, 6, 5, 2});
}

TEST_CASE("exchange order: while backward is long the queue gets what was held") {
  Exchanges exchanges({0, 0.01, 0.02, 0.03, 0.9, 0.95});
  exchanges.gate.set_value();
  slow_down(exchanges, 0.4);
  CHECK(exchanges.run_step() == std::vector<std::size_t>{0, 3, 2, 6, 5, 4, 1});
}

TEST_CASE("exchange order: of what is ready at once the last goes first, when the network is slow") {
  Exchanges exchanges({0.5, 0.5, 0.5, 0.6, 0.7, 0.8});
  exchanges.gate.set_value();
  slow_down(exchanges, 0.5);
  CHECK(exchanges.run_step() == std::vector<std::size_t>{2, 4, 6, 5, 3, 1, 0});
}

TEST_CASE("exchange order: backward may be over when the first is ready") {
  Exchanges exchanges({1, 1, 1, 1, 1, 1});
  exchanges.gate.set_value();
  CHECK(exchanges.run_step() == std::vector<std::size_t>{5, 4, 3, 2, 1, 0, 6});
  slow_down(exchanges, 1);
  CHECK(exchanges.run_step() == std::vector<std::size_t>{5, 6, 4, 3, 2, 1, 0});
}

TEST_CASE("exchange order: what does not fit half before the end comes behind the last") {
  Exchanges exchanges({0, 0.2, 0.4, 0.6, 0.8, 0.9});
  exchanges.gate.set_value();
  slow_down(exchanges, 0.19);
  CHECK(exchanges.run_step() == std::vector<std::size_t>{0, 1, 2, 3, 4, 6, 5});
  slow_down(exchanges, 0.1);
  CHECK(exchanges.run_step() == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("exchange order: a large bucket takes its share of the time, a small one less") {
  std::vector<Step> steps = held(evenly);
  steps[0].held->relative_bytes = 4;
  steps[3].held->relative_bytes = 0.5;
  std::vector<int> posted;
  const auto post = [&](int call) { posted.push_back(call); };
  HeldExchanges<int> exchanges(steps);
  for (int step = 0; step < 300; ++step) exchanges.follow(0.15);
  for (int call = 0; call < static_cast<int>(holdable); ++call) exchanges.offer(call, post);
  CHECK(posted == std::vector<int>{0, 3, 4, 2});
}

TEST_CASE("exchange order: what is held takes no memory anew, in the first step neither") {
  Exchanges exchanges;
  exchanges.gate.set_value();
  slow_down(exchanges, 1);
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

TEST_CASE("exchange order: the share is that of a mean exchange in the time from the first offer on") {
  Exchanges exchanges;
  exchanges.gate.set_value();
  CHECK(exchanges.order.share() == 0);
  for (std::size_t exchange = 0; exchange < holdable; ++exchange) {
    exchanges.order.hand_over(exchange, exchange, true);
    exchanges.order.wait(exchange);
  }
  exchanges.order.hand_over_held();
  CHECK(exchanges.order.share() > 0);
  CHECK(exchanges.order.share() <= 1.0 / holdable);  // they ran one by one, all within it
}

TEST_CASE("exchange order: an exchange's error reaches who waits for it or for a later one") {
  ExchangeQueue queue(2, [](std::size_t part) {
    if (part == 0) throw std::runtime_error("lost");
  });
  ExchangeOrder order(queue, 2, held({0}));
  order.hand_over(0, 0, true);
  order.hand_over(1, 1, false);
  CHECK_THROWS_WITH(order.wait(1), "lost");
  CHECK_THROWS_WITH(order.wait(0), "lost");
}

}  // namespace
}  // namespace lockstep::runtime
