// When workers and the caller of a loader sleep and wake, and how it ends.
#include <chrono>
#include <future>

#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/unit/data/numbers.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

TEST_CASE("the order of the next epoch is made ahead of time") {
  std::promise<void> second_made;
  const auto indices = [&](std::int64_t epoch) {
    if (epoch == 1) second_made.set_value();
    return in_order(1000)(epoch);
  };
  // Nothing is taken: the worker must come to the order by itself.
  Loader loader(std::make_shared<Numbers>(1000, 100000), indices,
                {.batch_size = 1, .workers = 1, .epochs = 2});
  CHECK(second_made.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
}

TEST_CASE("a worker that slept before a full ring fills the slots that come back") {
  const std::int64_t padding = 100000;  // 800 kB a batch: a ring of five slots
  const auto numbers = std::make_shared<Numbers>(1000, padding);
  std::promise<void> unblocked;
  unblocked.set_value();
  numbers->unblocked = unblocked.get_future().share();
  numbers->blocks_at = 5;
  std::promise<void> ring_is_full;
  const auto indices = [&](std::int64_t epoch) {
    if (epoch == 1) ring_is_full.set_value();
    return in_order(1000)(epoch);
  };
  Loader loader(numbers, indices, {.batch_size = 1, .workers = 1, .epochs = 2});
  ring_is_full.get_future().wait();
  loader.release(*loader.next(soon()));
  // The caller asks for nothing more, so sample 5 is reached only if the worker was woken.
  CHECK(numbers->reached.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
}

TEST_CASE("workers fill as many batches ahead as the prefetch factor asks for") {
  const LoaderOptions options{.batch_size = 1, .workers = 2, .prefetch_factor = 5, .epochs = 1};
  const std::int64_t slots = 2 * 5 + 3;  // two that the caller may hold, and one that it asks for
  CHECK(loader_slots(options, 800'000) == static_cast<std::size_t>(slots));
  const auto numbers = std::make_shared<Numbers>(1000, 100000);  // 800 kB a batch
  std::promise<void> unblocked;
  unblocked.set_value();
  numbers->unblocked = unblocked.get_future().share();
  numbers->blocks_at = slots - 1;
  // Nothing is taken.
  const Loader loader(numbers, in_order(1000), options);
  CHECK(numbers->reached.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
}

TEST_CASE("the deadline holds while a worker is stuck, and the batch comes when it is free") {
  std::promise<void> unblock;
  const auto numbers = std::make_shared<Numbers>(100);
  numbers->blocks_at = 5;
  numbers->unblocked = unblock.get_future().share();
  Loader loader(numbers, in_order(100),
                {.batch_size = 10, .workers = 1, .epochs = 1, .source = "numbers (/data)"});
  numbers->reached.get_future().wait();
  CHECK(message_of<DeviceError>([&] { loader.next(Deadline::in(Seconds(0.05))); }) ==
        "the loader did not deliver batch 0 of numbers (/data), sample 5 (worker 0) in time: is its disk "
        "stuck?");
  unblock.set_value();
  CHECK(deliver(loader).size() == 100);
}

TEST_CASE("a loader can be destroyed at any moment") {
  for (int round = 0; round < 200; ++round) {
    for (const int workers : {1, 3}) {
      Loader loader(std::make_shared<Numbers>(50), in_order(50), {.batch_size = 3, .workers = workers});
      deliver(loader, round % 40);
    }
  }
}

TEST_CASE("an abandoned loader with full ring and sleeping workers ends at once") {
  std::promise<void> second_made;
  const auto indices = [&](std::int64_t epoch) {
    if (epoch == 1) second_made.set_value();
    return in_order(1000)(epoch);
  };
  {
    Loader loader(std::make_shared<Numbers>(1000, 100000), indices,
                  {.batch_size = 1, .workers = 2, .epochs = 2});
    second_made.get_future().wait();  // the ring is full then
  }
  SUCCEED();
}
