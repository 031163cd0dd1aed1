#include "runtime/options/entries.h"

#include <utility>

#include <fmt/format.h>

namespace lockstep::runtime {
namespace {

using Generation = GenerationOptions;
using enum Decides;

std::string not_shown(const Options&) {
  return {};
}

template <class Number>
OptionEntry number(std::string name, std::string value_name, std::string what, Number Generation::*field,
                   Range<Number> range) {
  return {
      {"generation", std::move(name), std::move(value_name), std::move(what), nothing},
      [field, range](Options& o, const std::string& given) { o.generation.*field = number_in(given, range); },
      not_shown,
      fmt::format("{}", range.least),
      fmt::format("{}", range.most)};
}

}  // namespace

std::vector<OptionEntry> generation_entries() {
  constexpr Range<std::int64_t> token_counts{1, 1'000'000'000};
  constexpr Range<std::int64_t> kept_tokens{0, std::int64_t{1} << 32};
  return {
      {{"generation", "prompt", "TEXT", "predict: write on from here; may be given again", nothing},
       [](Options& o, const std::string& given) { o.generation.prompts.push_back(given); },
       not_shown},
      {{"generation", "prompt-file", "FILE", "predict: a prompt on each line that is not empty", nothing},
       [](Options& o, const std::string& given) { o.generation.prompt_file = given; },
       not_shown},
      number<std::int64_t>("max-new-tokens", "N", "predict: tokens behind each prompt at most (100)",
                           &Generation::max_new_tokens, token_counts),
      number<double>("temperature", "X", "predict: divides the logits; 0: the likeliest token (1)",
                     &Generation::temperature, {0, 1000}),
      number<std::int64_t>("top-k", "N", "predict: draw from the N likeliest tokens; 0: from all (0)",
                           &Generation::top_k, kept_tokens),
      number<double>("top-p", "X", "predict: draw from the likeliest tokens that together have X (1)",
                     &Generation::top_p, {0, 1}),
      {{"generation", "stop", "TEXT", "predict: end before this text", nothing},
       [](Options& o, const std::string& given) { o.generation.stop = given; },
       not_shown},
  };
}

}  // namespace lockstep::runtime
