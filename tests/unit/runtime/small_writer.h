#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/make_communicator.h"
#include "model/layers.h"
#include "model/model.h"
#include "runtime/generate/decoder.h"
#include "runtime/weights/parameter_io.h"
#include "tests/support/device_under_test.h"

namespace lockstep::runtime::testing {

inline constexpr std::int64_t vocabulary = 23;

/// A transformer of two layers on so many tokens, with learned positions: small, but with all that a GPT has.
inline model::Model writer(std::int64_t block_size) {
  const auto forward = [block_size](model::Tensor tokens) {
    constexpr std::int64_t columns = 32;
    model::Graph& graph = tokens.graph();
    const model::Initializer normal{.deviation = 0.5};
    const model::Tensor rows = embedding_weight(graph, "wpe", block_size, columns, normal);
    model::Tensor x = add(embedding(tokens, "wte", vocabulary, columns), rows_of_positions(tokens, rows));
    for (const std::string layer : {"h0", "h1"}) {
      const model::Tensor qkv = linear(layer_norm(x, layer + ".ln_1"), layer + ".qkv", 3 * columns);
      x = add(x, linear(attention(qkv, {.heads = 4, .causal = true}), layer + ".proj", columns));
      x = add(x, linear(gelu(linear(layer_norm(x, layer + ".ln_2"), layer + ".fc", 64)), layer + ".out",
                        columns));
    }
    return linear(layer_norm(x, "ln_f"), "head", vocabulary, {.initializer = normal});
  };
  return {.name = "writer", .forward = forward};
}

inline model::InputSpec windows(std::int64_t length) {
  return {.shape = {length},
          .num_classes = vocabulary,
          .target_shape = {length},
          .dtype = DType::i64,
          .vocab_size = vocabulary};
}

/// It with random weights, the same each time.
struct SmallWriter {
  explicit SmallWriter(const DecoderOptions& options, int threads = 1)
      : device(tests::make_device_under_test(threads)),
        decoder(*device, *communicator, writer(options.capacity), windows(options.capacity), options, {}) {
    ParameterIO(*device, decoder.plan(), decoder.memory()).initialise(5);
  }
  bool on_cpu() const { return device->is_cpu(); }

  std::unique_ptr<kernels::Device> device;
  std::unique_ptr<comm::Communicator> communicator = comm::make_communicator({}, {});
  Decoder decoder;
};

}  // namespace lockstep::runtime::testing
