#include "data/loader.h"

#include <array>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "data/sampler.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::tests;

namespace {

const auto kSoon = [] { return Deadline::in(Seconds(20)); };

/// Sample i is (i, epoch), with target 2i; one index can be made to throw, another to block.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::int64_t size, std::int64_t padding = 0) : size_(size) {
    spec_.input_dtype = DType::i64;
    spec_.input_shape = {2 + padding};
  }

  std::int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  void get(std::int64_t index, std::int64_t epoch, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    if (index == throws_at) throw DataError("sample is bad");
    if (index == blocks_at) {
      reached.set_value();
      unblocked.wait();
    }
    const std::int64_t values[2] = {index, epoch};
    const std::int64_t label = 2 * index;
    std::memcpy(input.data(), values, sizeof values);
    std::memcpy(target.data(), &label, sizeof label);
  }

  std::int64_t throws_at = -1;
  std::int64_t blocks_at = -1;
  mutable std::promise<void> reached;
  std::shared_future<void> unblocked;

 private:
  std::int64_t size_;
  SampleSpec spec_;
};

Loader::Indices in_order(std::int64_t size) {
  return [size](std::int64_t) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(size));
    std::iota(indices.begin(), indices.end(), std::int64_t{0});
    return indices;
  };
}

std::vector<std::int64_t> row_of(std::span<const std::byte> bytes, std::int64_t row, std::size_t length) {
  std::vector<std::int64_t> values(length);
  std::memcpy(values.data(), bytes.data() + static_cast<std::size_t>(row) * 8 * length, 8 * length);
  return values;
}

/// (epoch, index) of every sample in the order of delivery; checks each batch's description on the way.
std::vector<std::pair<std::int64_t, std::int64_t>> deliver(Loader& loader,
                                                           std::int64_t most_batches = 1 << 30) {
  std::vector<std::pair<std::int64_t, std::int64_t>> samples;
  std::int64_t index = 0;
  std::int64_t batches = 0;
  while (batches++ < most_batches) {
    const std::optional<Batch> batch = loader.next(kSoon());
    if (!batch) break;
    REQUIRE(batch->info.index == index);
    index = batch->info.last_of_epoch ? 0 : index + 1;
    REQUIRE(reinterpret_cast<std::uintptr_t>(batch->input.data()) % 64 == 0);
    REQUIRE(reinterpret_cast<std::uintptr_t>(batch->target.data()) % 64 == 0);
    REQUIRE(batch->target.size() == static_cast<std::size_t>(batch->info.samples) * 8);
    const std::size_t length = batch->input.size() / 8 / static_cast<std::size_t>(batch->info.samples);
    for (std::int64_t row = 0; row < batch->info.samples; ++row) {
      const auto input = row_of(batch->input, row, length);
      REQUIRE(input[1] == batch->info.epoch);
      REQUIRE(row_of(batch->target, row, 1)[0] == 2 * input[0]);
      samples.emplace_back(batch->info.epoch, input[0]);
    }
    loader.release(*batch);
  }
  return samples;
}

}  // namespace

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
        CHECK(!loader.next(kSoon()));
      }
    }
  }
}

TEST_CASE("the last batch is smaller, or dropped") {
  for (const int workers : {0, 2}) {
    Loader keeps(std::make_shared<Numbers>(10), in_order(10),
                 {.batch_size = 4, .workers = workers, .epochs = 2});
    CHECK(deliver(keeps).size() == 20);
    Loader drops(std::make_shared<Numbers>(10), in_order(10),
                 {.batch_size = 4, .drop_last_batch = true, .workers = workers, .epochs = 2});
    CHECK(deliver(drops).size() == 16);
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
    while (const auto batch = loader.next(kSoon())) {
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

TEST_CASE("without a number of epochs it goes on for ever") {
  for (const int workers : {0, 1, 3}) {
    Loader loader(std::make_shared<Numbers>(3), in_order(3), {.batch_size = 2, .workers = workers});
    const auto samples = deliver(loader, 5000);
    CHECK(samples.size() == 7500);
    CHECK(samples.back() == std::pair<std::int64_t, std::int64_t>{2499, 2});
  }
}

TEST_CASE("no samples are no batches; for ever no samples are an error") {
  for (const int workers : {0, 2}) {
    Loader none(std::make_shared<Numbers>(3), in_order(0),
                {.batch_size = 2, .workers = workers, .epochs = 3});
    CHECK(!none.next(kSoon()));
    Loader never(std::make_shared<Numbers>(3), in_order(3),
                 {.batch_size = 4, .drop_last_batch = true, .workers = workers});
    CHECK(message_of<UsageError>([&] { never.next(kSoon()); }) ==
          "3 samples make no batch of 4: give a smaller --batch-size");
  }
}

TEST_CASE("an error of a sample comes in its place, again and again") {
  for (const int workers : {0, 1, 3}) {
    const auto numbers = std::make_shared<Numbers>(100);
    numbers->throws_at = 41;
    Loader loader(numbers, in_order(100), {.batch_size = 10, .workers = workers});
    CHECK(deliver(loader, 4).size() == 40);
    CHECK(message_of<DataError>([&] { loader.next(kSoon()); }) == "sample is bad");
    CHECK(message_of<DataError>([&] { loader.next(kSoon()); }) == "sample is bad");
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
    CHECK(message_of<DataError>([&] { loader.next(kSoon()); }) == "no order");
  }
}

TEST_CASE("two batches can be held while a third comes") {
  for (const int workers : {0, 1, 2}) {
    Loader loader(std::make_shared<Numbers>(1000, 100000), in_order(1000),
                  {.batch_size = 1, .workers = workers});
    Batch older = *loader.next(kSoon());
    Batch newer = *loader.next(kSoon());
    for (std::int64_t i = 2; i < 300; ++i) {
      const Batch newest = *loader.next(kSoon());
      REQUIRE(newest.info.index == i);
      REQUIRE(row_of(older.input, 0, 1)[0] == i - 2);
      REQUIRE(row_of(newer.input, 0, 1)[0] == i - 1);
      loader.release(older);
      older = newer;
      newer = newest;
    }
  }
}

TEST_CASE("a batch that comes back out of turn or twice is an error") {
  Loader loader(std::make_shared<Numbers>(10), in_order(10), {.batch_size = 1, .workers = 1});
  const Batch first = *loader.next(kSoon());
  const Batch second = *loader.next(kSoon());
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
      while (loader.next(kSoon())) continue;
    };
    CHECK_THROWS_AS(take_all(), std::logic_error);
  }
}

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
  loader.release(*loader.next(kSoon()));
  // The caller asks for nothing more, so sample 5 is reached only if the worker was woken.
  CHECK(numbers->reached.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
}

TEST_CASE("the deadline holds while a worker is stuck, and the batch comes when it is free") {
  std::promise<void> unblock;
  const auto numbers = std::make_shared<Numbers>(100);
  numbers->blocks_at = 5;
  numbers->unblocked = unblock.get_future().share();
  Loader loader(numbers, in_order(100), {.batch_size = 10, .workers = 1, .epochs = 1});
  numbers->reached.get_future().wait();
  CHECK(message_of<CommError>([&] { loader.next(Deadline::in(Seconds(0.05))); }) ==
        "the loader did not deliver batch 0 in time: is the data set slow or its disk stuck?");
  unblock.set_value();
  CHECK(deliver(loader).size() == 100);
}

TEST_CASE("it can be destroyed at any moment") {
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

TEST_CASE("bad options are refused") {
  const auto complaint = [](LoaderOptions options) {
    return message_of<UsageError>([&] { Loader loader(std::make_shared<Numbers>(3), in_order(3), options); });
  };
  CHECK(complaint({.batch_size = 0}) == "batch size 0 is too small: give 1 or more");
  CHECK(complaint({.workers = -1}) == "number of loader workers -1 is too small: give 0 or more");
  CHECK(complaint({.batch_size = std::int64_t{1} << 36}).find("more than 2^40") != std::string::npos);
  CHECK(complaint({.prefetch_factor = 0}) == "prefetch factor 0 is too small: give 1 or more");
}
