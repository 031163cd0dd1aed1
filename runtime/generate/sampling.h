#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::runtime {

/// How the next token is drawn from a model's logits; the filters apply in this order, as in Hugging Face's
/// generate().
struct SamplingOptions {
  double temperature = 1;  ///< logits are divided by it; 0: the likeliest token, always
  std::int64_t top_k = 0;  ///< only among the so many likeliest; 0: all
  double top_p = 1;        ///< only among the likeliest whose probabilities first add up to it
  std::uint64_t seed = 0;
};

/// Draws tokens. Of equal logits the lower token counts as the likelier. The random number of a token follows
/// from the seed, its prompt and its place behind that, by Philox: not from ranks, threads or what is drawn
/// beside it. Computes in double, and allocates at its first use alone.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : options_(options) {}

  /// Token `place` of the text that follows prompt `prompt`, both counted from 0. NonFiniteError for a logit
  /// that is no number.
  std::int64_t draw(std::span<const float> logits, std::int64_t prompt, std::int64_t place);

 private:
  struct Candidate {
    double logit;
    std::int64_t token;
  };
  void keep_top_k();
  void keep_top_p();
  void set_shares();

  const SamplingOptions options_;
  std::vector<Candidate> candidates_;
  std::vector<double> shares_;  ///< of the candidates, not yet divided by their sum
  double sum_ = 0;
};

}  // namespace lockstep::runtime
