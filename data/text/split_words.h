#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace lockstep::data {

/// The two ways in use to cut text into the words that byte pairs are merged in; each a regular expression of
/// its tokenizer, which these scanners follow to the byte:
/// - gpt2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// - llama3, which is cl100k's: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
///   ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
enum class WordPattern { gpt2, llama3 };

/// Which one an expression is; none for any other.
std::optional<WordPattern> known_pattern(std::string_view expression);

/// Bytes of the first word of `text`, which is valid UTF-8 and not empty.
std::size_t first_word(std::string_view text, WordPattern pattern);

}  // namespace lockstep::data
