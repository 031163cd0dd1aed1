#include "runtime/generate/beam_search.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tests/support/catch.h"
#include "tests/unit/runtime/small_translator.h"

namespace lockstep::runtime {
namespace {

using namespace testing;

constexpr std::int64_t boundary = words - 1;

data::TokenizerPtr letters() {
  std::vector<std::string> names;
  for (char letter = 'a'; std::ssize(names) < boundary; ++letter) names.emplace_back(1, letter);
  return data::make_character_tokenizer(names);
}

/// log of the probability of each token behind `tokens`, which are taken in anew.
std::vector<double> log_probabilities(Decoder& decoder, const Tokens& source, const Tokens& tokens) {
  decoder.begin_target(0, source);
  decoder.append(0, tokens);
  decoder.run();
  double sum = 0;
  for (const float logit : decoder.logits(0)) sum += std::exp(static_cast<double>(logit));
  std::vector<double> logs;
  for (const float logit : decoder.logits(0)) logs.push_back(logit - std::log(sum));
  return logs;
}

struct Found {
  Tokens tokens{boundary};
  double sum = 0;
  std::optional<double> mean{};  ///< of one that has ended
};

/// Beam search without branches: each beginning is decoded from its start.
Tokens searched(Decoder& decoder, const Tokens& source, std::size_t beams, std::int64_t most) {
  std::vector<Found> live(1);
  std::vector<Found> ended;
  const auto best_first = [](const Found& a, const Found& b) { return a.mean > b.mean; };
  for (std::int64_t step = 1; step <= most; ++step) {
    std::vector<Found> longer;
    for (const Found& found : live) {
      const std::vector<double> logs = log_probabilities(decoder, source, found.tokens);
      for (std::int64_t token = 0; token < words; ++token) {
        Found& next = longer.emplace_back(found);
        next.tokens.push_back(token);
        next.sum += logs[static_cast<std::size_t>(token)];
      }
    }
    std::ranges::stable_sort(longer, [](const Found& a, const Found& b) { return a.sum > b.sum; });
    live.clear();
    for (std::size_t rank = 0; rank < 2 * beams && rank < longer.size() && live.size() < beams; ++rank) {
      Found next = longer[rank];
      if (next.tokens.back() != boundary) {
        live.push_back(next);
      } else if (rank < beams) {
        next.tokens.pop_back();
        next.mean = next.sum / static_cast<double>(step);
        ended.push_back(next);
      }
    }
    std::ranges::stable_sort(ended, best_first);
    if (ended.size() > beams) ended.resize(beams);
    const bool decided =
        ended.size() == beams && *ended.back().mean >= live[0].sum / static_cast<double>(step);
    if (decided) break;
    if (step < most) continue;
    for (Found& found : live) {
      found.mean = found.sum / static_cast<double>(step);
      ended.push_back(found);
    }
    std::ranges::stable_sort(ended, best_first);
  }
  return {ended.front().tokens.begin() + 1, ended.front().tokens.end()};
}

std::vector<Generated> translated(const std::vector<Tokens>& sources, const BeamOptions& options) {
  SmallTranslator small(translator(), static_cast<std::int64_t>(sources.size()) * options.beams, true);
  const auto tokenizer = letters();
  BeamSearch search(small.decoder, *tokenizer, options);
  std::vector<Generated> results;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    search.begin(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i), sources[i]);
  }
  while (search.is_active()) search.advance();
  for (std::size_t i = 0; i < sources.size(); ++i)
    results.push_back(search.result(static_cast<std::int64_t>(i)));
  return results;
}

}  // namespace

TEST_CASE("beam search finds what a search without branches finds") {
  const auto beams = GENERATE(2, 3, 5);
  const auto most = GENERATE(2, 5, target_length);
  SmallTranslator alone(translator(), 1);
  std::vector<Tokens> sources;
  for (std::int64_t seed = 0; seed < 4; ++seed) sources.push_back(some_words(3 + seed, seed));
  const auto got = translated(sources, {.beams = beams, .max_new_tokens = most, .boundary = boundary});
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Tokens wanted = searched(alone.decoder, sources[i], static_cast<std::size_t>(beams), most);
    CAPTURE(beams, most, i);
    CHECK(got[i].text == letters()->decode(wanted));
    CHECK(got[i].tokens == std::ssize(wanted));
  }
}

/// With as many beams as there are words no beginning of one word is lost.
TEST_CASE("beam search with beams for all beginnings finds the likeliest of all") {
  const Tokens source = some_words(6, 3);
  SmallTranslator alone(translator(), 1);
  double best = -1e9;
  Tokens wanted;
  const auto offer = [&](const Tokens& tokens, double mean) {
    if (mean <= best) return;
    best = mean;
    wanted = tokens;
  };
  const auto first = log_probabilities(alone.decoder, source, {boundary});
  offer({}, first[boundary]);
  for (std::int64_t a = 0; a < boundary; ++a) {
    const auto second = log_probabilities(alone.decoder, source, {boundary, a});
    for (std::int64_t b = 0; b < words; ++b) {
      const double mean = (first[static_cast<std::size_t>(a)] + second[static_cast<std::size_t>(b)]) / 2;
      offer(b == boundary ? Tokens{a} : Tokens{a, b}, mean);
    }
  }
  const auto got = translated({source}, {.beams = words, .max_new_tokens = 2, .boundary = boundary});
  CHECK(got[0].text == letters()->decode(wanted));
}

}  // namespace lockstep::runtime
