#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/external_op.h"
#include "model/define_op.h"

namespace lockstep::tests {

/// Tokens (N, T) i64 as rows of a unit matrix, (N, T, V), or their sum over T, (N, V). Padding is no token.
struct OneHot : kernels::ExternalRules {
  OneHot(std::int64_t tokens, bool sums) : vocab_size(tokens), summed(sums) {}
  std::string plugin() const override { return "tokens"; }
  std::string name() const override { return summed ? "token_counts" : "one_hot"; }
  std::string attributes() const override { return "vocab " + std::to_string(vocab_size); }

  kernels::Types infer(kernels::TypeSpan in) const override {
    kernels::require_count(in, 1, 1);
    kernels::require_dtype("tokens", in[0], DType::i64);
    kernels::require_rank("tokens", in[0], 2);
    const std::int64_t samples = in[0].shape[0];
    const Shape shape = summed ? Shape{samples, vocab_size} : Shape{samples, in[0].shape[1], vocab_size};
    return {{DType::f32, shape}};
  }

  kernels::ExternalKernel cpu_kernel(const kernels::KernelIo& io) const override {
    const std::int64_t length = io.inputs[0].shape[1];
    const std::int64_t samples = io.inputs[0].shape[0];
    return {[=, vocab = vocab_size, sums = summed](const kernels::Addresses& a) {
      const auto* const tokens = a.in<std::int64_t>(0);
      std::fill_n(a.out(0), samples * (sums ? 1 : length) * vocab, 0.0F);
      for (std::int64_t at = 0; at < samples * length; ++at) {
        if (tokens[at] >= 0 && tokens[at] < vocab)
          a.out(0)[(sums ? at / length : at) * vocab + tokens[at]] += 1;
      }
    }};
  }

  std::int64_t vocab_size;
  bool summed;
};

inline void differentiate_one_hot(const kernels::ExternalOp&, model::Backward&) {}

inline model::Tensor one_hot(model::Tensor tokens, std::int64_t vocab_size, bool sums) {
  return model::apply(tokens.graph(), kernels::ExternalOp{std::make_shared<OneHot>(vocab_size, sums)},
                      differentiate_one_hot, {tokens.id()}, "tokens");
}

}  // namespace lockstep::tests
