#pragma once

#include <cstring>
#include <future>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "data/loader.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"

namespace lockstep::data::testing {

inline Deadline soon() {
  return Deadline::in(Seconds(20));
}

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

inline Loader::Indices in_order(std::int64_t size) {
  return [size](std::int64_t) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(size));
    std::iota(indices.begin(), indices.end(), std::int64_t{0});
    return indices;
  };
}

inline std::vector<std::int64_t> row_of(std::span<const std::byte> bytes, std::int64_t row,
                                        std::size_t length) {
  std::vector<std::int64_t> values(length);
  std::memcpy(values.data(), bytes.data() + static_cast<std::size_t>(row) * 8 * length, 8 * length);
  return values;
}

/// (epoch, index) of every sample in the order of delivery; checks each batch's description on the way.
inline std::vector<std::pair<std::int64_t, std::int64_t>> deliver(Loader& loader,
                                                                  std::int64_t most_batches = 1 << 30) {
  std::vector<std::pair<std::int64_t, std::int64_t>> samples;
  std::int64_t index = 0;
  std::int64_t batches = 0;
  while (batches++ < most_batches) {
    const std::optional<Batch> batch = loader.next(soon());
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

}  // namespace lockstep::data::testing
