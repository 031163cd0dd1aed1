#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/text/tokenizer.h"
#include "runtime/generate/decoder.h"
#include "runtime/generate/text_writer.h"

namespace lockstep::runtime {

struct BeamOptions {
  std::int64_t beams = 2;  ///< hypotheses of a text
  std::int64_t max_new_tokens = 100;
  std::int64_t boundary = 0;  ///< the token that begins and ends a translation
};

/// Translations by beam search: the `beams` likeliest beginnings go on together, rows of a decoder with
/// branches, until as many translations have ended and no beginning could become better than the worst of
/// them. Translations are compared by the mean logarithm of their tokens' probabilities, the end's included:
/// Hugging Face's generate() with num_beams and its length_penalty of 1. Of equals the earlier beginning
/// comes first, then the lower token. In double; allocates when a text begins alone.
class BeamSearch : public TextWriter {
 public:
  BeamSearch(Decoder& decoder, const data::Tokenizer& tokenizer, const BeamOptions& options);

  std::int64_t places() const override { return static_cast<std::int64_t>(texts_.size()); }
  void begin(std::int64_t place, std::int64_t number, std::span<const std::int64_t> source) override;
  bool is_active() const override;
  void advance() override;
  const Generated& result(std::int64_t place) const override {
    return texts_[static_cast<std::size_t>(place)].result;
  }

 private:
  struct Hypothesis {
    std::vector<std::int64_t> tokens;
    double log_probability = 0;  ///< of all of its tokens
    bool complete = false;       ///< the model ended it
  };
  struct Candidate {
    double log_probability;
    std::int64_t beam, token;
  };
  struct Text {
    std::vector<Hypothesis> live;
    std::vector<Hypothesis> next;   ///< those of the step that is made
    std::vector<Hypothesis> ended;  ///< the best so far, their `log_probability` the mean
    Generated result;
    bool active = false;
  };

  void add_candidates(std::int64_t place);
  void take_candidates(std::int64_t place);
  void end(Text& text, Hypothesis hypothesis, std::int64_t tokens);
  bool is_full(const Text& text) const;
  bool is_decided(const Text& text) const;
  void finish(Text& text);

  Decoder& decoder_;
  const data::Tokenizer& tokenizer_;
  const BeamOptions options_;
  std::vector<Text> texts_;
  std::vector<Candidate> candidates_;
  std::vector<std::int64_t> parents_;  ///< by row
};

}  // namespace lockstep::runtime
