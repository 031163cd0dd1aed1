// Tokens, and how the loader counts their targets.
#include <algorithm>
#include <vector>

#include "data/datasets.h"
#include "data/lengths.h"
#include "data/loader.h"
#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/numbers.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

namespace {

/// Sample i is 5 tokens i, of which i % 6 have a class.
class SomeClasses : public Dataset {
 public:
  explicit SomeClasses(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    std::vector<std::int64_t> tokens(5, index);
    std::vector<std::int64_t> classes(5, no_class);
    std::fill_n(classes.begin(), index % 6, 1);
    std::memcpy(input.data(), tokens.data(), input.size());
    std::memcpy(target.data(), classes.data(), target.size());
  }

 private:
  std::int64_t size_;
  SampleSpec spec_{.input_dtype = DType::i64,
                   .input_shape = {5},
                   .target_shape = {5},
                   .num_classes = 3,
                   .vocab_size = 100};
};

struct Tokens {
  std::vector<std::int64_t> input;
  std::vector<std::int64_t> target;
};

Tokens tokens_of(const Dataset& set, std::int64_t index) {
  Tokens tokens;
  tokens.input.resize(static_cast<std::size_t>(set.spec().input_shape.elements()));
  tokens.target.resize(static_cast<std::size_t>(set.spec().target_shape.elements()));
  set.get(index, 0, std::as_writable_bytes(std::span(tokens.input)),
          std::as_writable_bytes(std::span(tokens.target)));
  return tokens;
}

DatasetOptions synthetic_tokens() {
  return {.name = "synthetic",
          .samples = 300,
          .num_classes = 50,
          .seq_len = 21,
          .vocab_size = 50,
          .per_token = true,
          .classes_are_tokens = true,
          .seed = 3};
}

SafetensorsFile::Tensor tensor(const char* name, const Shape& shape,
                               const std::vector<std::int64_t>& values) {
  return {name, DType::i64, shape, std::as_bytes(std::span(values))};
}

}  // namespace

TEST_CASE("the loader counts the targets of a batch, and of a whole step with its first batch") {
  const int workers = GENERATE(0, 2);
  const std::int64_t batches_per_step = GENERATE(1, 3);
  // 20 samples of which the last two are padding, in batches of 3: with 3 in a step 9, 9 and 2 samples.
  const auto indices = [](std::int64_t) {
    EpochSamples samples = in_order(20)(0);
    samples.padding = 2;
    return samples;
  };
  Loader loader(std::make_shared<SomeClasses>(20), indices,
                {.batch_size = 3, .batches_per_step = batches_per_step, .workers = workers, .epochs = 2});
  std::int64_t batches = 0;
  while (const auto batch = loader.next(soon())) {
    const auto targets_of = [](std::int64_t first, std::int64_t count) {
      std::int64_t targets = 0;
      for (std::int64_t i = first; i < std::min<std::int64_t>(18, first + count); ++i) targets += i % 6;
      return targets;
    };
    const std::int64_t at = batch->info.index;
    CHECK(batch->info.targets == targets_of(3 * at, 3));
    const std::int64_t of_step = at % batches_per_step == 0 ? targets_of(3 * at, 3 * batches_per_step) : 0;
    CHECK(batch->info.step_targets == of_step);
    loader.release(*batch);
    ++batches;
  }
  CHECK(batches == 14);
}

TEST_CASE("samples with one class or with values are counted themselves, without being read ahead") {
  const auto numbers = std::make_shared<Numbers>(100);
  numbers->throws_at = 4;
  Loader loader(numbers, in_order(100), {.batch_size = 2, .batches_per_step = 5, .workers = 0});
  const auto batch = loader.next(soon());
  CHECK(batch->info.targets == 2);
  CHECK(batch->info.step_targets == 10);
}

TEST_CASE("synthetic tokens depend on seed, split and index alone, and mostly follow from those before") {
  const DatasetPtr set = open_dataset(synthetic_tokens(), Split::train);
  CHECK(set->spec().input_dtype == DType::i64);
  CHECK(set->spec().target_shape == Shape{21});
  CHECK(set->spec().vocab_size == 50);
  CHECK(tokens_of(*set, 7).input == tokens_of(*open_dataset(synthetic_tokens(), Split::train), 7).input);
  CHECK(tokens_of(*set, 7).input != tokens_of(*set, 8).input);
  CHECK(tokens_of(*set, 7).input != tokens_of(*open_dataset(synthetic_tokens(), Split::test), 7).input);
  std::vector<int> counts(50);
  int follow = 0;
  for (std::int64_t i = 0; i < set->size(); ++i) {
    const Tokens tokens = tokens_of(*set, i);
    std::vector<std::int64_t> rolled = tokens.input;
    std::rotate(rolled.begin(), rolled.begin() + 1, rolled.end());
    REQUIRE(tokens.target == rolled);
    for (std::size_t at = 0; at < tokens.input.size(); ++at) {
      ++counts.at(static_cast<std::size_t>(tokens.input[at]));
      if (at > 0 && tokens.input[at] == (tokens.input[at - 1] + 1) % 50) ++follow;
    }
    CHECK(set->valid_targets(i, 0) == 21);
  }
  CHECK(*std::ranges::min_element(counts) > 300 * 21 / 50 / 2);
  CHECK(follow / (300.0 * 20) == Approx(0.75).margin(0.03));
}

TEST_CASE("synthetic tokens with one class, and with values") {
  DatasetOptions options = synthetic_tokens();
  options.per_token = false;
  options.num_classes = 4;
  const DatasetPtr classes = open_dataset(options, Split::train);
  CHECK(classes->spec().target_shape.rank() == 0);
  const Tokens tokens = tokens_of(*classes, 5);
  REQUIRE(tokens.target.size() == 1);
  const auto in_part = std::ranges::count_if(
      tokens.input, [&](std::int64_t token) { return (token * 4 + 3) / 50 == tokens.target[0]; });
  CHECK(in_part > 21 / 3);
  options.num_classes = 0;
  options.target_shape = {2};
  const DatasetPtr values = open_dataset(options, Split::train);
  CHECK(values->spec().target_dtype == DType::f32);
  CHECK(values->spec().target_bytes() == 2 * sizeof(float));
  CHECK(values->valid_targets(0, 0) == 1);
}

TEST_CASE("the vocabulary of tensors is what a user says, else the greatest token or class sets it") {
  const TemporaryFolder folder;
  const std::vector<std::int64_t> tokens{4, 2, -1, 0, 9, 3};
  const std::vector<std::int64_t> classes{1, 11, -100, -100, 3, 0};
  DatasetOptions options{
      .name = "tensors", .data_dir = folder / "file", .num_classes = 12, .vocab_size = 1000};
  write_safetensors(folder / "file",
                    std::vector{tensor("inputs", {2, 3}, tokens), tensor("targets", {2, 3}, classes)});
  const auto spec_of = [](const DatasetOptions& given) { return open_dataset(given, Split::train)->spec(); };
  CHECK(spec_of(options).vocab_size == 10);
  CHECK(spec_of(options).num_classes == 12);
  CHECK(open_dataset(options, Split::train)->valid_targets(0, 0) == 2);
  options.classes_are_tokens = true;
  CHECK(spec_of(options).vocab_size == 12);
  CHECK(spec_of(options).num_classes == 12);
  options.vocab_size_given = true;
  CHECK(spec_of(options).vocab_size == 1000);
  CHECK(spec_of(options).num_classes == 1000);
  options.vocab_size = 9;
  CHECK_THAT(message_of<DataError>([&] { spec_of(options); }),
             contains("inputs[1, 1] is 9: no token, which are 0 to 8, nor padding, which is -1"));
  // A model that takes no tokens gets integers as they are.
  options = {.name = "tensors", .data_dir = folder / "file", .num_classes = 12};
  CHECK(spec_of(options).vocab_size == 0);
}

TEST_CASE("source and target are one row; each has its own padding") {
  const TemporaryFolder folder;
  const std::vector<std::int64_t> sources{1, 2, 3, -1};
  const std::vector<std::int64_t> tokens{4, 5, -1, 0, 9, 3};
  const std::vector<std::int64_t> classes{1, 2, -100, 0, 0, 0};
  write_safetensors(folder / "file",
                    std::vector{tensor("src", {2, 2}, sources), tensor("tgt", {2, 3}, tokens),
                                tensor("targets", {2, 3}, classes)});
  const DatasetOptions options{
      .name = "tensors", .data_dir = folder / "file", .num_classes = 12, .vocab_size = 12};
  const DatasetPtr set = open_dataset(options, Split::train);
  CHECK(set->spec().source_length == 2);
  CHECK(set->spec().input_shape == Shape{5});
  CHECK(set->spec().target_shape == Shape{3});
  const std::vector<std::int64_t> row{3, -1, 0, 9, 3};
  CHECK(tokens_of(*set, 1).input == row);
  const std::vector<std::int64_t> first = tokens_of(*set, 0).input;
  CHECK(tokens_in(set->spec(), std::as_bytes(std::span(first))) == 2);
  DatasetOptions without = options;
  without.vocab_size = 0;
  CHECK_THAT(message_of<DataError>([&] { open_dataset(without, Split::train); }),
             contains("'src' and 'tgt' are tokens, which this model does not take"));
}

namespace {

/// Sample i is 1 + i * 37 % 1000 tokens i, then padding.
class Padded final : public Dataset {
 public:
  explicit Padded(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t length(std::int64_t index) const override { return 1 + index * 37 % 1000; }
  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const Tokens row = whole_row(index);
    std::memcpy(input.data(), row.input.data(), input.size());
    std::memcpy(target.data(), row.target.data(), target.size());
  }
  Tokens whole_row(std::int64_t index) const {
    Tokens row{std::vector<std::int64_t>(1200, padding_token), std::vector<std::int64_t>(1200, no_class)};
    std::fill_n(row.input.begin(), length(index), index);
    std::fill_n(row.target.begin(), length(index), index % 3);
    return row;
  }

 private:
  std::int64_t size_;
  SampleSpec spec_{.input_dtype = DType::i64,
                   .input_shape = {1200},
                   .target_shape = {1200},
                   .num_classes = 3,
                   .vocab_size = 10000};
};

}  // namespace

TEST_CASE("batches are cut to few lengths, which random batches take about equally often") {
  const Padded set(4000);
  const std::vector<std::int64_t> lengths = batch_lengths(set, 4);
  REQUIRE(lengths.size() == most_lengths);
  CHECK(std::ranges::is_sorted(lengths));
  CHECK(lengths.back() == 1000);
  CHECK(batch_lengths(set, 1024) == std::vector<std::int64_t>{1000});
  CHECK(batch_lengths(SomeClasses(20), 4).empty());
  std::vector<int> taken(lengths.size());
  std::vector<std::int64_t> order = torch_randperm(4000, 3);
  Loader loader(std::make_shared<Padded>(4000), [&](std::int64_t) { return order; },
                {.batch_size = 4, .lengths = lengths, .workers = 2, .epochs = 1});
  while (const auto batch = loader.next(soon())) {
    const auto at = std::ranges::find(lengths, batch->info.length) - lengths.begin();
    ++taken.at(static_cast<std::size_t>(at));
    loader.release(*batch);
  }
  CHECK(*std::ranges::min_element(taken) > 1000 / 8 / 2);
}

TEST_CASE(
    "rows of a batch are cut to the least length that holds its longest, a smaller last step's to the "
    "greatest") {
  const auto set = std::make_shared<Padded>(50);
  const std::int64_t batches_per_step = GENERATE(1, 2);
  const std::vector<std::int64_t> lengths{240, 640, 1000};
  Loader loader(
      set, in_order(50),
      {.batch_size = 4, .batches_per_step = batches_per_step, .lengths = lengths, .workers = 0, .epochs = 1});
  while (const auto batch = loader.next(soon())) {
    const std::int64_t length = batch->info.length;
    const std::int64_t first = 4 * batch->info.index;
    std::int64_t longest = 0;
    for (std::int64_t i = first; i < first + batch->info.samples; ++i)
      longest = std::max(longest, set->length(i));
    const bool last_step = batch->info.index >= 12;
    CHECK(length == (last_step ? 1000 : *std::ranges::lower_bound(lengths, longest)));
    REQUIRE(batch->input.size() == static_cast<std::size_t>(4 * length) * 8);
    std::int64_t targets = 0;
    for (std::int64_t row = 0; row < 4; ++row) {
      // Rows that are missing repeat the first.
      const std::int64_t sample = row < batch->info.samples ? first + row : first;
      Tokens whole = set->whole_row(sample);
      whole.input.resize(static_cast<std::size_t>(length));
      whole.target.resize(static_cast<std::size_t>(length));
      CHECK(row_of(batch->input, row, static_cast<std::size_t>(length)) == whole.input);
      CHECK(row_of(batch->target, row, static_cast<std::size_t>(length)) == whole.target);
      if (row < batch->info.samples) targets += set->length(sample);
    }
    CHECK(batch->info.targets == targets);
    loader.release(*batch);
  }
}
