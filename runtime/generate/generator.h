#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/text/tokenizer.h"
#include "runtime/generate/decoder.h"
#include "runtime/generate/sampling.h"
#include "runtime/generate/text_writer.h"

namespace lockstep::runtime {

struct GeneratorOptions {
  std::int64_t max_new_tokens = 100;
  std::string stop;  ///< the text ends before it; empty: nothing does
  /// Of a model with an encoder: the token that begins and ends a translation. Prompts are what is
  /// translated.
  std::optional<std::int64_t> boundary{};
  /// The token by which a model ends a text, and which is no part of it; none: texts go on behind it.
  std::optional<std::int64_t> end_of_text{};
  SamplingOptions sampling;
};

/// Writes on from prompts, as many at a time as the decoder has rows. A text that outgrows what the model can
/// look at goes on from its last half, which is taken in anew: once for each half, so a token's mean cost
/// stays (llama.cpp's context shift).
class Generator : public TextWriter {
 public:
  Generator(Decoder& decoder, const data::Tokenizer& tokenizer, GeneratorOptions options);

  std::int64_t places() const override { return static_cast<std::int64_t>(rows_.size()); }
  /// A prompt of some tokens, at most the decoder's capacity, or a source of translations.
  void begin(std::int64_t row, std::int64_t number, std::span<const std::int64_t> prompt) override;
  bool is_active() const override;
  void advance() override;
  const Generated& result(std::int64_t row) const override {
    return rows_[static_cast<std::size_t>(row)].result;
  }

 private:
  struct Row {
    std::int64_t number = 0;
    std::vector<std::int64_t> tokens;  ///< with the prompt
    Generated result;
    bool active = false;
  };
  void take(Row& row, std::int64_t token);
  void feed(std::int64_t row);

  Decoder& decoder_;
  const data::Tokenizer& tokenizer_;
  const GeneratorOptions options_;
  Sampler sampler_;
  std::vector<Row> rows_;
};

}  // namespace lockstep::runtime
