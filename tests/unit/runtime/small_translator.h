#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/make_communicator.h"
#include "model/zoo/zoo.h"
#include "runtime/generate/decoder.h"
#include "runtime/weights/parameter_io.h"
#include "tests/support/device_under_test.h"

namespace lockstep::runtime::testing {

using Tokens = std::vector<std::int64_t>;

inline constexpr std::int64_t words = 19;
inline constexpr std::int64_t source_length = 9;
inline constexpr std::int64_t target_length = 7;

inline model::InputSpec pairs() {
  return {.shape = {source_length + target_length},
          .num_classes = words,
          .target_shape = {target_length},
          .dtype = DType::i64,
          .vocab_size = words,
          .source_length = source_length};
}

/// The zoo's transformer, small.
inline model::Model translator(const model::ModelArgs& more = {}) {
  model::ModelArgs args{{"d_model", "32"}, {"nhead", "4"}, {"layers", "2"}, {"block_size", "9"}};
  args.insert(more.begin(), more.end());
  return model::find_model(model::zoo(), "transformer", args).make(args, pairs());
}

inline Tokens some_words(std::int64_t length, std::int64_t seed) {
  Tokens tokens;
  for (std::int64_t i = 0; i < length; ++i) tokens.push_back((seed * 7 + i * i * 3 + i) % words);
  return tokens;
}

/// It with random weights, the same each time.
struct SmallTranslator {
  SmallTranslator(const model::Model& model, std::int64_t rows, bool branches = false)
      : decoder(*device, *communicator, model, pairs(),
                {.rows = rows, .capacity = target_length, .branches = branches}, {}) {
    ParameterIO(*device, decoder.plan(), decoder.memory()).initialise(5);
  }
  bool on_cpu() const { return device->is_cpu(); }

  std::unique_ptr<kernels::Device> device = tests::make_device_under_test(1);
  std::unique_ptr<comm::Communicator> communicator = comm::make_communicator({}, {});
  Decoder decoder;
};

}  // namespace lockstep::runtime::testing
