#include "data/loader.h"

#include <array>
#include <stdexcept>
#include <vector>

#include "data/sampler.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/unit/data/numbers.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

TEST_CASE("samples come in order through every epoch, whatever the number of workers") {
  const DistributedSampler sampler{.samples = 103, .replicas = 2, .rank = 1, .seed = 5};
  const auto indices = [&](std::int64_t epoch) { return sampler.indices(epoch); };
  std::vector<std::pair<std::int64_t, std::int64_t>> expected;
  for (std::int64_t epoch = 3; epoch < 8; ++epoch) {
    for (const std::int64_t index : indices(epoch)) expected.emplace_back(epoch, index);
  }
  for (const int workers : {0, 1, 2, 3}) {
    for (const std::int64_t batch_size : {1, 7, 52, 60}) {
      for (const std::int64_t padding :
           {std::int64_t{0}, 100000 / batch_size}) {  // a deep ring; the least one
        CAPTURE(workers, padding, batch_size);
        Loader loader(std::make_shared<Numbers>(103, padding), indices,
                      {.batch_size = batch_size, .workers = workers, .first_epoch = 3, .epochs = 5});
        CHECK(deliver(loader) == expected);
        CHECK(!loader.next(soon()));
      }
    }
  }
}

TEST_CASE("the last batch is smaller") {
  for (const int workers : {0, 2}) {
    Loader loader(std::make_shared<Numbers>(10), in_order(10),
                  {.batch_size = 4, .workers = workers, .epochs = 2});
    CHECK(deliver(loader).size() == 20);
  }
}

TEST_CASE("a loader that starts in mid-epoch gives what is left, then the next epochs whole") {
  const int workers = GENERATE(0, 1, 3);
  const auto take = [workers](std::int64_t first_epoch, std::int64_t first_batch, std::int64_t epochs) {
    Loader loader(std::make_shared<Numbers>(10), in_order(10),
                  {.batch_size = 3,
                   .workers = workers,
                   .first_epoch = first_epoch,
                   .first_batch = first_batch,
                   .epochs = epochs});
    std::vector<std::array<std::int64_t, 3>> batches;
    while (const auto batch = loader.next(soon())) {
      batches.push_back({batch->info.epoch, batch->info.index, batch->info.samples});
      loader.release(*batch);
    }
    return batches;
  };
  using Batches = std::vector<std::array<std::int64_t, 3>>;
  CHECK(take(2, 2, 2) == Batches{{2, 2, 3}, {2, 3, 1}, {3, 0, 3}, {3, 1, 3}, {3, 2, 3}, {3, 3, 1}});
  CHECK(take(5, 3, 1) == Batches{{5, 3, 1}});
  CHECK(take(5, 4, 1).empty());
}

TEST_CASE("without a number of epochs a loader never ends") {
  for (const int workers : {0, 1, 3}) {
    Loader loader(std::make_shared<Numbers>(3), in_order(3), {.batch_size = 2, .workers = workers});
    const auto samples = deliver(loader, 5000);
    CHECK(samples.size() == 7500);
    CHECK(samples.back() == std::pair<std::int64_t, std::int64_t>{2499, 2});
  }
}

TEST_CASE("no samples are no batches; an endless loader without batches is an error") {
  for (const int workers : {0, 2}) {
    Loader none(std::make_shared<Numbers>(3), in_order(0),
                {.batch_size = 2, .workers = workers, .epochs = 3});
    CHECK(!none.next(soon()));
    Loader never(std::make_shared<Numbers>(3), in_order(0), {.batch_size = 4, .workers = workers});
    CHECK(message_of<std::logic_error>([&] { never.next(soon()); }) == "an endless loader without samples");
  }
}

TEST_CASE("an error of a sample comes in its place, again and again") {
  for (const int workers : {0, 1, 3}) {
    const auto numbers = std::make_shared<Numbers>(100);
    numbers->throws_at = 41;
    Loader loader(numbers, in_order(100), {.batch_size = 10, .workers = workers});
    CHECK(deliver(loader, 4).size() == 40);
    CHECK(message_of<DataError>([&] { loader.next(soon()); }) == "sample is bad");
    CHECK(message_of<DataError>([&] { loader.next(soon()); }) == "sample is bad");
  }
}

TEST_CASE("an error of the sampler comes behind the epochs before it") {
  for (const int workers : {0, 1, 3}) {
    const auto indices = [](std::int64_t epoch) {
      if (epoch == 2) throw DataError("no order");
      return in_order(10)(epoch);
    };
    Loader loader(std::make_shared<Numbers>(10), indices, {.batch_size = 5, .workers = workers});
    CHECK(deliver(loader, 4).size() == 20);
    CHECK(message_of<DataError>([&] { loader.next(soon()); }) == "no order");
  }
}

TEST_CASE("two batches can be held while a third comes") {
  for (const int workers : {0, 1, 2}) {
    Loader loader(std::make_shared<Numbers>(1000, 100000), in_order(1000),
                  {.batch_size = 1, .workers = workers});
    Batch older = *loader.next(soon());
    Batch newer = *loader.next(soon());
    for (std::int64_t i = 2; i < 300; ++i) {
      const Batch newest = *loader.next(soon());
      REQUIRE(newest.info.index == i);
      REQUIRE(row_of(older.input, 0, 1)[0] == i - 2);
      REQUIRE(row_of(newer.input, 0, 1)[0] == i - 1);
      loader.release(older);
      older = newer;
      newer = newest;
    }
  }
}

TEST_CASE("a batch that is released out of order or twice is an error") {
  Loader loader(std::make_shared<Numbers>(10), in_order(10), {.batch_size = 1, .workers = 1});
  const Batch first = *loader.next(soon());
  const Batch second = *loader.next(soon());
  CHECK_THROWS_AS(loader.release(second), std::logic_error);
  loader.release(first);
  CHECK_THROWS_AS(loader.release(first), std::logic_error);
  loader.release(second);
  CHECK_THROWS_AS(loader.release(second), std::logic_error);
}

TEST_CASE("holding all batches is an error, not a hang") {
  for (const int workers : {0, 1}) {
    Loader loader(std::make_shared<Numbers>(1000, 100000), in_order(1000),
                  {.batch_size = 1, .workers = workers});
    const auto take_all = [&] {
      while (loader.next(soon())) continue;
    };
    CHECK_THROWS_AS(take_all(), std::logic_error);
  }
}

TEST_CASE("bad options are refused") {
  const auto complaint = [](LoaderOptions options) {
    return message_of<UsageError>([&] { Loader loader(std::make_shared<Numbers>(3), in_order(3), options); });
  };
  CHECK(complaint({.batch_size = 0}) == "batch size 0 is too small: give 1 or more");
  CHECK(complaint({.workers = -1}) == "number of loader workers -1 is too small: give 0 or more");
  CHECK(complaint({.batch_size = std::int64_t{1} << 36}).find("more than 2^40") != std::string::npos);
  CHECK(complaint({.prefetch_factor = 0}) == "prefetch factor 0 is too small: give 1 or more");
}
