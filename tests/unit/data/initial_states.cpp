// States before the first step: of a file of tensors, in batches, in the fingerprint.
#include <numeric>
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

constexpr std::int64_t samples = 5;
constexpr std::int64_t layers = 2;
constexpr std::int64_t hidden = 4;

template <class T>
SafetensorsFile::Tensor tensor(const char* name, DType dtype, const Shape& shape,
                               const std::vector<T>& values) {
  return {name, dtype, shape, std::as_bytes(std::span(values))};
}

std::vector<float> counted_from(float first) {
  std::vector<float> values(static_cast<std::size_t>(samples * layers * hidden));
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Sequences of 1 to 3 of 20 tokens, and what is given as states.
class SequencesFile {
 public:
  std::vector<float> h = counted_from(0);
  std::vector<float> c = counted_from(100);

  DatasetOptions with(const std::vector<SafetensorsFile::Tensor>& states, const Shape& taken) const {
    std::vector<SafetensorsFile::Tensor> all{tensor("inputs", DType::i64, {samples, 20}, tokens_),
                                             tensor("targets", DType::i64, {samples}, classes_)};
    all.insert(all.end(), states.begin(), states.end());
    write_safetensors(folder_ / "file", all);
    return {.name = "tensors",
            .data_dir = folder_ / "file",
            .num_classes = 2,
            .vocab_size = 9,
            .states_shape = taken};
  }
  SafetensorsFile::Tensor h0() const { return tensor("h0", DType::f32, {samples, layers, hidden}, h); }
  SafetensorsFile::Tensor c0() const { return tensor("c0", DType::f32, {samples, layers, hidden}, c); }

 private:
  static std::vector<std::int64_t> padded_tokens() {
    std::vector<std::int64_t> tokens(samples * 20, padding_token);
    for (std::int64_t row = 0; row < samples; ++row) std::fill_n(tokens.begin() + row * 20, 1 + row % 3, row);
    return tokens;
  }

  TemporaryFolder folder_;
  std::vector<std::int64_t> tokens_ = padded_tokens();
  std::vector<std::int64_t> classes_{0, 1, 0, 1, 0};
};

const Shape of_lstm{2, layers, hidden};
const Shape of_rnn{1, layers, hidden};

/// h and then c of a sample, as the file's numbers say.
std::vector<float> states_of(std::int64_t sample, std::size_t kinds) {
  std::vector<float> states(kinds * layers * hidden);
  const auto first = static_cast<float>(sample * layers * hidden);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const bool is_cell = i >= layers * hidden;
    states[i] = first + static_cast<float>(i % (layers * hidden)) + (is_cell ? 100.0F : 0.0F);
  }
  return states;
}

}  // namespace

TEST_CASE("states come with their samples into batches, whole where rows of tokens are cut") {
  const SequencesFile file;
  const bool is_lstm = GENERATE(true, false);
  const std::size_t kinds = is_lstm ? 2 : 1;
  std::vector<SafetensorsFile::Tensor> given{file.h0()};
  if (is_lstm) given.push_back(file.c0());
  const DatasetPtr set = open_dataset(file.with(given, is_lstm ? of_lstm : of_rnn), Split::train);
  CHECK(set->spec().states_shape == (is_lstm ? of_lstm : of_rnn));
  const std::size_t width = kinds * layers * hidden;
  const std::vector<std::int64_t> order{4, 2, 0, 3, 1};
  Loader loader(set, [&](std::int64_t) { return order; },
                {.batch_size = 2, .lengths = batch_lengths(*set, 2), .workers = GENERATE(0, 2), .epochs = 1});
  std::int64_t batches = 0;
  while (const auto batch = loader.next(soon())) {
    CHECK(batch->info.length == 3);
    REQUIRE(batch->states.size() == 2 * width * sizeof(float));
    for (std::int64_t row = 0; row < 2; ++row) {
      // A row that is missing repeats the first.
      const std::int64_t at = 2 * batches + (row < batch->info.samples ? row : 0);
      std::vector<float> states(width);
      std::memcpy(states.data(), batch->states.data() + static_cast<std::size_t>(row) * width * sizeof(float),
                  width * sizeof(float));
      CHECK(states == states_of(order[static_cast<std::size_t>(at)], kinds));
    }
    loader.release(*batch);
    ++batches;
  }
  CHECK(batches == 3);
}

TEST_CASE("without states in the file samples have none, and batches no memory for them") {
  const SequencesFile file;
  const DatasetPtr set = open_dataset(file.with({}, of_lstm), Split::train);
  CHECK(set->spec().states_shape.rank() == 0);
  Loader loader(set, in_order(samples), {.batch_size = 2, .workers = 0, .epochs = 1});
  CHECK(loader.next(soon())->states.empty());
}

TEST_CASE("states that do not fit the model are named with the shape that is wanted") {
  const SequencesFile file;
  const auto refused = [&](const std::vector<SafetensorsFile::Tensor>& states, const Shape& taken) {
    const DatasetOptions options = file.with(states, taken);
    const std::string said = message_of<DataError>([&] { open_dataset(options, Split::train); });
    CHECK_THAT(said, contains(options.data_dir.string() + ": "));
    return said;
  };
  CHECK_THAT(refused({file.h0()}, {}),
             contains("'h0' is a state before the first step, which this model does not take; leave it out"));
  CHECK_THAT(refused({file.c0()}, {}), contains("'c0' is a state before the first step"));
  CHECK_THAT(refused({file.h0()}, of_lstm),
             contains("there is 'h0' but no 'c0', which must be f32 5x2x4 (samples, layers, hidden)"));
  CHECK_THAT(refused({file.c0()}, of_lstm), contains("there is 'c0' but no 'h0', which must be f32 5x2x4"));
  CHECK_THAT(
      refused({file.h0(), file.c0()}, of_rnn),
      contains("'c0': this model has no cells and takes 'h0' alone, f32 5x2x4 (samples, layers, hidden)"));
  CHECK_THAT(refused({file.h0(), file.c0()}, {2, layers, hidden + 1}),
             contains("'h0' is f32 5x2x4, must be f32 5x2x5 (samples, layers, hidden)"));
  const auto torchs = tensor("c0", DType::f32, {layers, samples, hidden}, file.c);
  CHECK_THAT(refused({file.h0(), torchs}, of_lstm),
             contains("'c0' is f32 2x5x4, must be f32 5x2x4 (samples, layers, hidden); PyTorch's is "
                      "transposed: save transpose(0, 1)"));
  const std::vector<std::int64_t> integers(samples * layers * hidden);
  CHECK_THAT(refused({tensor("h0", DType::i64, {samples, layers, hidden}, integers)}, of_rnn),
             contains("'h0' is i64 5x2x4, must be f32 5x2x4"));
}

TEST_CASE("another state is another fingerprint") {
  SequencesFile file;
  const auto fingerprint = [&](const std::vector<SafetensorsFile::Tensor>& states) {
    return fingerprint_of(*open_dataset(file.with(states, of_rnn), Split::train));
  };
  const std::string before = fingerprint({file.h0()});
  CHECK(fingerprint({}) != before);
  file.h[3] += 1;
  CHECK(fingerprint({file.h0()}) != before);
}
