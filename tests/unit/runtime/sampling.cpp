#include "runtime/generate/sampling.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "kernels/base/error.h"
#include "tests/support/allocation_count.h"
#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

/// Of many draws, as shares.
std::map<std::int64_t, double> drawn(const SamplingOptions& options, const std::vector<float>& logits) {
  constexpr std::int64_t draws = 20000;
  Sampler sampler(options);
  std::map<std::int64_t, double> shares;
  for (std::int64_t place = 0; place < draws; ++place) shares[sampler.draw(logits, 0, place)] += 1.0 / draws;
  return shares;
}

/// Logits of these probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

void require_shares(const std::map<std::int64_t, double>& got, const std::map<std::int64_t, double>& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (const auto& [token, share] : wanted) CHECK(got.at(token) == Approx(share).margin(0.012));
}

}  // namespace

TEST_CASE("sampling: tokens come as often as softmax says") {
  require_shares(drawn({}, logits_of({0.1, 0.6, 0.3})), {{0, 0.1}, {1, 0.6}, {2, 0.3}});
}

TEST_CASE("sampling: a temperature of two takes the root of the odds") {
  // 0.8 : 0.2 becomes 2 : 1.
  require_shares(drawn({.temperature = 2}, logits_of({0.2, 0.8})), {{0, 1.0 / 3}, {1, 2.0 / 3}});
}

TEST_CASE("sampling: temperature 0 gives the likeliest, of equals the lowest token") {
  Sampler sampler({.temperature = 0, .top_k = 3, .top_p = 0.1});
  CHECK(sampler.draw(std::vector<float>{1, 5, 5, -2}, 3, 7) == 1);
  CHECK(sampler.draw(std::vector<float>{-3, -1, -0.5F}, 3, 7) == 2);
}

TEST_CASE("sampling: top-k keeps k, of equals the lowest tokens") {
  require_shares(drawn({.top_k = 2}, logits_of({0.1, 0.2, 0.4, 0.2, 0.1})), {{1, 1.0 / 3}, {2, 2.0 / 3}});
  require_shares(drawn({.top_k = 9}, logits_of({0.5, 0.5})), {{0, 0.5}, {1, 0.5}});
  require_shares(drawn({.top_k = 1}, logits_of({0.25, 0.5, 0.25})), {{1, 1}});
}

TEST_CASE("sampling: top-p keeps the fewest whose probabilities reach p, and always one") {
  const std::vector<float> logits = logits_of({0.05, 0.5, 0.15, 0.3});
  // Hugging Face's TopPLogitsWarper(0.75) keeps 0.5 and 0.3; of 0.45 the first alone.
  require_shares(drawn({.top_p = 0.75}, logits), {{1, 0.625}, {3, 0.375}});
  require_shares(drawn({.top_p = 0.45}, logits), {{1, 1}});
  require_shares(drawn({.top_p = 0}, logits), {{1, 1}});
}

TEST_CASE("sampling: top-k comes before top-p") {
  // Of the two likeliest the first has 0.625.
  require_shares(drawn({.top_k = 2, .top_p = 0.6}, logits_of({0.05, 0.5, 0.15, 0.3})), {{1, 1}});
}

TEST_CASE("sampling: a token follows from seed, prompt and place alone") {
  const std::vector<float> logits(1000, 0);
  const auto tokens = [&](std::uint64_t seed, std::int64_t prompt) {
    Sampler sampler({.seed = seed});
    std::vector<std::int64_t> all;
    for (std::int64_t place = 0; place < 8; ++place) all.push_back(sampler.draw(logits, prompt, place));
    return all;
  };
  const auto first = tokens(1, 0);
  CHECK(tokens(1, 0) == first);
  CHECK(tokens(2, 0) != first);
  CHECK(tokens(1, 1) != first);
  Sampler sampler({.seed = 1});
  CHECK(sampler.draw(logits, 0, 5) == first[5]);
}

TEST_CASE("sampling: infinite logits decide, and what is no number is refused") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Sampler sampler({});
  CHECK(sampler.draw(std::vector<float>{0, infinity, 1}, 0, 0) == 1);
  CHECK(sampler.draw(std::vector<float>{-infinity, 0, -infinity}, 0, 0) == 1);
  CHECK_THROWS_AS(sampler.draw(std::vector<float>{0, std::nanf("")}, 0, 0), NonFiniteError);
}

}  // namespace lockstep::runtime
