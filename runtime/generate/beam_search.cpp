#include "runtime/generate/beam_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/base/error.h"

namespace lockstep::runtime {
namespace {

std::size_t index(std::int64_t at) {
  return static_cast<std::size_t>(at);
}

/// log of the sum of exp: what turns logits into log-probabilities.
double log_sum(std::span<const float> logits) {
  const double greatest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - greatest);
  return greatest + std::log(sum);
}

}  // namespace

BeamSearch::BeamSearch(Decoder& decoder, const data::Tokenizer& tokenizer, const BeamOptions& options)
    : decoder_(decoder),
      tokenizer_(tokenizer),
      options_(options),
      texts_(index(decoder.options().rows / options.beams)),
      parents_(index(decoder.options().rows)) {
  std::iota(parents_.begin(), parents_.end(), std::int64_t{0});
}

void BeamSearch::begin(std::int64_t place, std::int64_t, std::span<const std::int64_t> source) {
  Text& text = texts_[index(place)];
  text = {};
  text.active = true;
  text.live.push_back({.tokens = {options_.boundary}});
  for (std::int64_t beam = 0; beam < options_.beams; ++beam) {
    decoder_.begin_target(place * options_.beams + beam, source);
  }
  decoder_.append(place * options_.beams, text.live.front().tokens);
}

bool BeamSearch::is_active() const {
  return std::ranges::any_of(texts_, &Text::active);
}

void BeamSearch::advance() {
  decoder_.run();
  std::iota(parents_.begin(), parents_.end(), std::int64_t{0});
  for (std::int64_t place = 0; place < places(); ++place) {
    Text& text = texts_[index(place)];
    if (!text.active) continue;
    add_candidates(place);
    take_candidates(place);
    text.active = !is_full(text) && !is_decided(text);
    if (!text.active) finish(text);
  }
  decoder_.branch(parents_);
  for (std::int64_t place = 0; place < places(); ++place) {
    const Text& text = texts_[index(place)];
    if (!text.active) continue;
    for (std::size_t beam = 0; beam < text.live.size(); ++beam) {
      decoder_.append(place * options_.beams + static_cast<std::int64_t>(beam),
                      std::span(text.live[beam].tokens).last(1));
    }
  }
}

/// Twice as many as there are beams, the likeliest first: half of them may end.
void BeamSearch::add_candidates(std::int64_t place) {
  const Text& text = texts_[index(place)];
  candidates_.clear();
  for (std::int64_t beam = 0; beam < std::ssize(text.live); ++beam) {
    const auto all = decoder_.logits(place * options_.beams + beam);
    const auto logits = all.first(std::min(all.size(), index(tokenizer_.size()) + 1));
    const double before = text.live[index(beam)].log_probability - log_sum(logits);
    if (!std::isfinite(before)) throw NonFiniteError("a logit is no number: the weights are not finite");
    for (std::size_t token = 0; token < logits.size(); ++token) {
      candidates_.push_back({before + logits[token], beam, static_cast<std::int64_t>(token)});
    }
  }
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
  };
  const std::size_t kept = std::min(candidates_.size(), index(2 * options_.beams));
  std::ranges::partial_sort(candidates_, candidates_.begin() + static_cast<std::ptrdiff_t>(kept), likelier);
  candidates_.resize(kept);
}

void BeamSearch::take_candidates(std::int64_t place) {
  Text& text = texts_[index(place)];
  text.next.clear();
  for (std::size_t rank = 0; rank < candidates_.size() && std::ssize(text.next) < options_.beams; ++rank) {
    const auto& [log_probability, beam, token] = candidates_[rank];
    const Hypothesis& parent = text.live[index(beam)];
    if (token == options_.boundary) {
      if (rank < index(options_.beams)) {
        end(text, {parent.tokens, log_probability, true}, std::ssize(parent.tokens));
      }
      continue;
    }
    parents_[index(place * options_.beams + std::ssize(text.next))] = place * options_.beams + beam;
    Hypothesis& longer = text.next.emplace_back(parent);
    longer.tokens.push_back(token);
    longer.log_probability = log_probability;
  }
  std::swap(text.live, text.next);
}

/// `tokens`: over which the mean is taken.
void BeamSearch::end(Text& text, Hypothesis hypothesis, std::int64_t tokens) {
  const double mean = hypothesis.log_probability / static_cast<double>(tokens);
  hypothesis.log_probability = mean;
  const auto worse = std::ranges::find_if(
      text.ended, [mean](const Hypothesis& other) { return other.log_probability < mean; });
  text.ended.insert(worse, std::move(hypothesis));
  if (std::ssize(text.ended) > options_.beams) text.ended.pop_back();
}

bool BeamSearch::is_full(const Text& text) const {
  const std::int64_t length = std::ssize(text.live.front().tokens);  // with the boundary in front
  return length > options_.max_new_tokens || length > decoder_.options().capacity;
}

bool BeamSearch::is_decided(const Text& text) const {
  if (std::ssize(text.ended) < options_.beams) return false;
  const auto tokens = static_cast<double>(std::ssize(text.live.front().tokens) - 1);
  const double best_live = text.live.front().log_probability / tokens;
  return text.ended.back().log_probability >= best_live;
}

void BeamSearch::finish(Text& text) {
  if (!is_decided(text)) {
    for (const Hypothesis& live : text.live) end(text, live, std::ssize(live.tokens) - 1);
  }
  const Hypothesis& best = text.ended.front();
  const std::span<const std::int64_t> tokens = std::span(best.tokens).subspan(1);
  text.result.reason = best.complete ? StopReason::end : StopReason::length;
  text.result.tokens = std::ssize(tokens);
  text.result.text = tokenizer_.decode(tokens);
}

}  // namespace lockstep::runtime
