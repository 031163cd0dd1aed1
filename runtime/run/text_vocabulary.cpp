#include "runtime/run/text_vocabulary.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/text/vocabulary.h"
#include "kernels/base/error.h"
#include "runtime/checkpoint/saved_weights.h"

namespace lockstep::runtime {

void take_numbers_of_tokens(const WeightsFile& weights, const std::optional<std::filesystem::path>& config,
                            TextUse use, const Registry& registry, data::DatasetOptions& dataset) {
  const bool trains = use == TextUse::training;
  const bool was_typed = !dataset.tokenizer.empty();
  dataset.token_names = weights.token_names();
  if (!dataset.token_names.empty()) {
    dataset.unknown_character_advice =
        fmt::format("; these are the characters that {} knows: leave others out of the text{}",
                    weights.path().string(), trains ? ", or train without --init-from" : "");
  } else if (!was_typed) {
    dataset.tokenizer = tokenizer_of(weights.path(), config);
  }
  // A plugin's data set may number its tokens in a way of its own.
  if (!registry.plugin_of(EntryKind::dataset, dataset.name).empty()) return;
  if (dataset.token_names.empty() && dataset.tokenizer.empty()) {
    throw UsageError(fmt::format(
        "{}: no vocabulary is kept with these weights; give --tokenizer PATH, that of their training, or "
        "--tokenizer characters if they know the text's own characters, numbered from 0",
        weights.path().string()));
  }
  const bool may_differ = was_typed && trains;
  if (!may_differ && data::has_tokenizer(dataset) && !weights.tokenizer_fingerprint().empty())
    open_tokenizer_for(weights, dataset.tokenizer);
}

namespace {

/// What of a tokenizer is not as the weights tell, "merges, added tokens". Files from before rules were kept
/// tell of the tokens alone.
std::string difference_of(const data::Tokenizer& tokenizer, const WeightsFile& weights) {
  const std::string known = weights.tokenizer_fingerprint();
  if (!known.empty() && known != data::fingerprint_of(tokenizer)) return "tokens";
  std::string names;
  const data::TokenizerRules rules = tokenizer.rules();
  for (const auto& [name, text] : weights.tokenizer_rules()) {
    const auto found = rules.find(name);
    if (found == rules.end() || found->second == text) continue;
    names += (names.empty() ? "" : ", ") + name;
  }
  std::ranges::replace(names, '_', ' ');
  return names;
}

}  // namespace

data::TokenizerPtr open_tokenizer_for(const WeightsFile& weights, const std::filesystem::path& path) {
  data::TokenizerPtr tokenizer = data::open_tokenizer(path);
  const std::string difference = difference_of(*tokenizer, weights);
  if (difference.empty()) return tokenizer;
  throw DataError(fmt::format(
      "{}: differs in {} from the tokenizer that {} was trained with; give that one by --tokenizer PATH",
      path.string(), difference, weights.path().string()));
}

}  // namespace lockstep::runtime
