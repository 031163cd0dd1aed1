#include <string>
#include <utility>

#include "data/text/utf8.h"
#include "kernels/base/error.h"
#include "runtime/options/entries.h"

namespace lockstep::runtime {
namespace {

using Generation = GenerationOptions;
using enum Decides;

std::string not_shown(const Options&) {
  return {};
}

OptionEntry count(std::string name, std::string what, std::int64_t Generation::*field,
                  Range<std::int64_t> range) {
  return {{"generation", std::move(name), "N", std::move(what), nothing},
          [=](Options& o, const std::string& given) { o.generation.*field = number_in(given, range); },
          [=](const Options& o) { return std::to_string(o.generation.*field); },
          std::to_string(range.least),
          std::to_string(range.most)};
}

OptionEntry number(std::string name, std::string what, double Generation::*field, Range<double> range) {
  return {{"generation", std::move(name), "X", std::move(what), nothing},
          [=](Options& o, const std::string& given) { o.generation.*field = number_in(given, range); },
          [=](const Options& o) { return show_real(o.generation.*field); },
          show_real(range.least),
          show_real(range.most)};
}

}  // namespace

std::vector<OptionEntry> generation_entries() {
  constexpr Range<std::int64_t> token_counts{1, 1'000'000'000};
  constexpr Range<std::int64_t> kept_tokens{0, std::int64_t{1} << 32};
  return {
      {{"generation", "prompt", "TEXT", "predict: write on from here; may be given again", nothing},
       [](Options& o, const std::string& given) { o.generation.prompts.push_back(given); },
       not_shown},
      {{"generation", "prompt-file", "FILE",
        "predict: a prompt on each line that is not empty; -: of standard input", nothing},
       [](Options& o, const std::string& given) {
         if (given.empty()) throw UsageError("'' is no file");
         o.generation.prompt_file = given;
       },
       not_shown},
      count("max-new-tokens", "predict: tokens behind each prompt at most", &Generation::max_new_tokens,
            token_counts),
      number("temperature", "predict: divides the logits; 0: always the likeliest token",
             &Generation::temperature, {0, 1000}),
      count("top-k", "predict: draw from the N likeliest tokens; 0: from all", &Generation::top_k,
            kept_tokens),
      number("top-p", "predict: draw from the likeliest tokens that together have X", &Generation::top_p,
             {0, 1}),
      count("beam", "predict: of translations, the likeliest by N hypotheses; 1: tokens are drawn",
            &Generation::beam, {1, 256}),
      {{"generation", "stop", "TEXT", "predict: end before this text, too; '': not even at <|endoftext|>",
        nothing},
       [](Options& o, const std::string& given) {
         if (data::valid_utf8_length(given) < given.size()) throw UsageError("is no UTF-8: no text has it");
         o.generation.stop = given;
       },
       not_shown},
  };
}

}  // namespace lockstep::runtime
