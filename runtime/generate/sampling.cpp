#include "runtime/generate/sampling.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/philox.h"

namespace lockstep::runtime {
namespace {

/// In [0, 1), a multiple of 2^-53. The highest bits keep these streams apart from those of parameters and
/// dropout.
double uniform(std::uint64_t seed, std::int64_t prompt, std::int64_t place) {
  const Philox random(seed, std::uint64_t{3} << 62 | static_cast<std::uint64_t>(prompt));
  const PhiloxCounter words = random.block(static_cast<std::uint64_t>(place));
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

void require_numbers(std::span<const float> logits) {
  const auto bad = std::ranges::find_if(logits, [](float logit) { return std::isnan(logit); });
  if (bad == logits.end()) return;
  throw NonFiniteError(
      fmt::format("the logit of token {} is no number: the weights are not finite", bad - logits.begin()));
}

}  // namespace

std::int64_t Sampler::draw(std::span<const float> logits, std::int64_t prompt, std::int64_t place) {
  require_numbers(logits);
  if (options_.temperature == 0) return std::ranges::max_element(logits) - logits.begin();
  candidates_.clear();
  for (std::size_t token = 0; token < logits.size(); ++token) {
    candidates_.push_back({logits[token] / options_.temperature, static_cast<std::int64_t>(token)});
  }
  keep_top_k();
  set_shares();
  keep_top_p();
  double left = uniform(options_.seed, prompt, place) * sum_;
  for (std::size_t at = 0; at < candidates_.size(); ++at) {
    if (left < shares_[at]) return candidates_[at].token;
    left -= shares_[at];
  }
  // Rounding may leave a rest behind the last: of those that can come, the last it is.
  std::size_t last = candidates_.size() - 1;
  while (last > 0 && shares_[last] == 0) --last;
  return candidates_[last].token;
}

void Sampler::keep_top_k() {
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  };
  const bool has_k = options_.top_k > 0 && options_.top_k < std::ssize(candidates_);
  if (has_k) {
    std::ranges::nth_element(candidates_, candidates_.begin() + options_.top_k, likelier);
    candidates_.resize(static_cast<std::size_t>(options_.top_k));
  }
  if (has_k || options_.top_p < 1) std::ranges::sort(candidates_, likelier);
}

/// Relative to the greatest, so that nothing overflows.
void Sampler::set_shares() {
  const double greatest = std::ranges::max_element(candidates_, {}, &Candidate::logit)->logit;
  shares_.clear();
  sum_ = 0;
  for (const Candidate& candidate : candidates_) {
    const bool is_greatest = candidate.logit == greatest;  // infinite ones, too
    shares_.push_back(is_greatest ? 1 : std::exp(candidate.logit - greatest));
    sum_ += shares_.back();
  }
}

/// The likeliest, and each further one while those before it do not reach p.
void Sampler::keep_top_p() {
  if (options_.top_p >= 1) return;
  const double wanted = options_.top_p * sum_;
  double before = 0;
  std::size_t kept = 0;
  while (kept < candidates_.size() && (kept == 0 || before < wanted)) before += shares_[kept++];
  candidates_.resize(kept);
  shares_.resize(kept);
  sum_ = before;
}

}  // namespace lockstep::runtime
