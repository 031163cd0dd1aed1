#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/text/split_words.h"
#include "data/text/tokenizer.h"

namespace lockstep::data {

/// Byte-level byte-pair encoding (Sennrich, Haddow, Birch 2016; over bytes as in GPT-2).
struct BytePairs {
  WordPattern pattern = WordPattern::gpt2;
  std::vector<std::string> tokens{};  ///< by id, the bytes of each; empty where an id is none
  std::vector<std::pair<std::uint32_t, std::uint32_t>> merges{};  ///< of ids, the first to be merged first
  /// Found in a text before it is cut into words, the longest at a place first.
  std::vector<std::uint32_t> specials{};
  std::vector<std::uint32_t> added{};  ///< of `specials` those that pairs cannot make
  bool whole_words = false;  ///< a word that is a token is not merged from its bytes ("ignore_merges")
};

/// UsageError when a byte has no token, or two merged tokens make none.
TokenizerPtr make_byte_pair_tokenizer(BytePairs pairs);

}  // namespace lockstep::data
