#include "runtime/exchange_queue.h"

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <vector>

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

TEST_CASE("an exchange's error reaches the waiting thread; those behind it are not tried") {
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

TEST_CASE("as many buckets as a model has parameters wait, none is lost while the first is exchanged") {
  constexpr std::size_t buckets = 3000;
  std::atomic<bool> all_posted{false};
  std::vector<std::size_t> seen;
  ExchangeQueue queue(buckets, [&](std::size_t bucket) {
    all_posted.wait(false);
    seen.push_back(bucket);
  });
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) queue.post(bucket);
  all_posted = true;
  all_posted.notify_one();
  queue.wait_all();
  std::vector<std::size_t> wanted(buckets);
  std::iota(wanted.begin(), wanted.end(), std::size_t{0});
  CHECK(seen == wanted);
}

TEST_CASE("a queue that never had work ends") {
  ExchangeQueue queue(1, [](std::size_t) {});
}

}  // namespace
}  // namespace lockstep::runtime
