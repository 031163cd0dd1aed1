#include "data/text/vocabulary.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/text/utf8.h"
#include "kernels/base/error.h"

namespace lockstep::data {

bool has_tokenizer(const DatasetOptions& options) {
  return !options.tokenizer.empty() && options.tokenizer != "characters";
}

Vocabulary vocabulary_of(const DatasetOptions& options, std::span<const std::string_view> texts) {
  if (has_tokenizer(options)) return {.tokenizer = open_tokenizer(options.tokenizer)};
  if (!options.token_names.empty()) {
    return {.tokenizer = make_character_tokenizer(options.token_names, options.unknown_character_advice),
            .names = options.token_names};
  }
  CharacterSet characters;
  for (const std::string_view text : texts) characters.add(text);
  Vocabulary vocabulary{.tokenizer = nullptr, .names = characters.names()};
  vocabulary.tokenizer = make_character_tokenizer(vocabulary.names);
  return vocabulary;
}

std::int64_t settled_vocab_size(const DatasetOptions& options, std::int64_t own) {
  if (options.seq_len < 1) {
    throw UsageError(fmt::format(
        "{}: the model takes no sequences of tokens; `trainer models` lists those that do", options.name));
  }
  if (!options.vocab_size_given) return own;
  if (options.vocab_size >= own) return options.vocab_size;
  if (!options.vocab_size_file.empty()) {
    throw UsageError(fmt::format("{} says vocab_size {}, the {} data have {} tokens; {}",
                                 options.vocab_size_file, options.vocab_size, options.name, own,
                                 more_tokens_than_weights));
  }
  throw UsageError(fmt::format("vocab_size {}: the {} data have {} tokens; leave it out", options.vocab_size,
                               options.name, own));
}

FilePart file_text(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const std::string_view text = checked_utf8(path, bytes);
  const std::size_t mark = byte_order_mark_length(text);
  return {path, mark, text.substr(mark)};
}

void encode_from(const FilePart& part, const Tokenizer& tokenizer, std::vector<std::uint32_t>& ids,
                 Activity* activity) {
  try {
    tokenizer.encode(part.text, ids, activity);
  } catch (const UnknownCharacter& unknown) {
    throw DataError(
        fmt::format("{}: offset {}: {}", part.path.string(), part.offset + unknown.offset, unknown.reason));
  }
}

TokenPiece piece_of(const std::vector<std::uint32_t>& ids, std::int64_t vocab_size) {
  const auto as_words = [&]<class Word>(Word) {
    const auto words = std::make_shared<std::vector<Word>>(ids.begin(), ids.end());
    return TokenPiece{TokenSpan(std::as_bytes(std::span(*words)), sizeof(Word)), words};
  };
  if (vocab_size <= 1 << 8) return as_words(std::uint8_t{});
  return vocab_size <= 1 << 16 ? as_words(std::uint16_t{}) : as_words(std::uint32_t{});
}

void TokenSequences::add(const FilePart& part, const Tokenizer& tokenizer) {
  encode_from(part, tokenizer, ids_, nullptr);
  begins_.push_back(std::ssize(ids_));
}

void TokenSequences::finish(std::int64_t vocab_size) {
  piece_ = piece_of(ids_, vocab_size);
  ids_ = {};
}

std::int64_t TokenSequences::length(std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index);
  return begins_[at + 1] - begins_[at];
}

void TokenSequences::copy(std::int64_t index, std::span<std::int64_t> out) const {
  const std::int64_t begin = begins_[static_cast<std::size_t>(index)];
  const std::int64_t count = std::min(length(index), static_cast<std::int64_t>(out.size()));
  piece_.tokens.part(begin, begin + count).copy_to(out.first(static_cast<std::size_t>(count)));
  std::ranges::fill(out.subspan(static_cast<std::size_t>(count)), padding_token);
}

void TokenSequences::each_content(const Dataset::TakeBytes& take) const {
  take(piece_.tokens.bytes());
  take(std::as_bytes(std::span(begins_)));
}

std::string warning_of_cut(std::int64_t samples, std::int64_t seq_len,
                           const std::function<std::int64_t(std::int64_t index)>& tokens_of) {
  std::int64_t cut = 0;
  std::int64_t longest = 0;
  for (std::int64_t index = 0; index < samples; ++index) {
    const std::int64_t tokens = tokens_of(index);
    if (tokens > seq_len) ++cut;
    longest = std::max(longest, tokens);
  }
  if (cut == 0) return {};
  return fmt::format("texts longer than --seq-len {} are cut: {} of {}; the longest takes {} tokens", seq_len,
                     cut, samples, longest);
}

}  // namespace lockstep::data
