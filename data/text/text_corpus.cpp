#include "data/text/text_corpus.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/folders.h"
#include "data/text/utf8.h"
#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

/// Text that is one piece of a split.
struct Part {
  std::string_view text;
  Split split;
};

/// Each from its first line up to the first line of the next that is not blank.
std::vector<std::string_view> documents_in(std::string_view text) {
  std::vector<std::string_view> documents;
  std::size_t begin = 0;
  bool has_text = false;
  bool behind_blank = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const bool is_blank = text.substr(at, end - at).find_first_not_of(" \t\r\n") == std::string_view::npos;
    if (!is_blank && behind_blank && has_text) {
      documents.push_back(text.substr(begin, at - begin));
      begin = at;
    }
    has_text = has_text || !is_blank;
    behind_blank = is_blank;
    at = end;
  }
  if (begin < text.size()) documents.push_back(text.substr(begin));
  return documents;
}

/// In the narrowest words that hold every id.
TokenPiece piece_of(const std::vector<std::uint32_t>& ids, std::int64_t vocab_size) {
  const auto as_words = [&]<class Word>(Word) {
    const auto words = std::make_shared<std::vector<Word>>(ids.begin(), ids.end());
    return TokenPiece{TokenSpan(std::as_bytes(std::span(*words)), sizeof(Word)), words};
  };
  if (vocab_size <= 1 << 8) return as_words(std::uint8_t{});
  return vocab_size <= 1 << 16 ? as_words(std::uint16_t{}) : as_words(std::uint32_t{});
}

TokenPiece encoded(const Tokenizer& tokenizer, std::string_view text, bool in_documents) {
  std::vector<std::uint32_t> ids;
  std::vector<TokenPiece::Document> documents;
  for (const std::string_view document : in_documents ? documents_in(text) : std::vector{text}) {
    const std::int64_t begin = std::ssize(ids);
    tokenizer.encode(document, ids);
    if (in_documents) documents.push_back({begin, std::ssize(ids)});
  }
  TokenPiece piece = piece_of(ids, tokenizer.size());
  piece.documents = std::move(documents);
  return piece;
}

std::vector<Part> parts_of(std::string_view text, bool has_test_files, Split split) {
  if (split == Split::test) return {{text, split}};
  if (has_test_files) return {{text, split}};
  // As nanoGPT: int(n * 0.9) characters.
  const auto for_training = static_cast<std::int64_t>(static_cast<double>(count_characters(text)) * 0.9);
  const std::size_t cut = utf8_prefix(text, for_training);
  return {{text.substr(0, cut), Split::train}, {text.substr(cut), Split::test}};
}

std::shared_ptr<const TextCorpus> read(const OpenedTexts::Key& key, Activity* activity) {
  Activity::Work reading(activity, "reading text of " + key.place.string());
  const SplitFiles files = split_files(key.place, ".txt");
  std::vector<MappedFile> mapped;
  std::vector<Part> parts;
  CharacterSet characters;
  const auto take = [&](const std::vector<fs::path>& paths, Split split) {
    for (const fs::path& path : paths) {
      const std::string_view text = checked_utf8(path, mapped.emplace_back(path).bytes());
      if (text.empty()) throw DataError(fmt::format("{}: offset 0: the file is empty", path.string()));
      characters.add(text);
      for (const Part& part : parts_of(text, !files.test.empty(), split)) parts.push_back(part);
      reading.advance();
    }
  };
  take(files.train, Split::train);
  take(files.test, Split::test);
  TextCorpus corpus{.tokenizer = nullptr, .names = characters.names()};
  corpus.tokenizer = make_character_tokenizer(corpus.names);
  for (const Part& part : parts) {
    auto& pieces = part.split == Split::train ? corpus.train : corpus.test;
    pieces.push_back(encoded(*corpus.tokenizer, part.text, key.in_documents && part.split == Split::train));
    reading.advance();
  }
  return std::make_shared<const TextCorpus>(std::move(corpus));
}

SampleSpec spec_for(const DatasetOptions& options, const TextCorpus& corpus) {
  return window_spec(options.seq_len, options.per_token,
                     settled_vocab_size(options, corpus.tokenizer->size()));
}

}  // namespace

std::shared_ptr<const TextCorpus> open_text_corpus(const DatasetOptions& options) {
  if (options.data_dir.empty()) throw UsageError("text: give the file by --data-dir FILE.txt");
  const bool in_documents = WindowRule::parse(options.windows).kind == WindowRule::Kind::documents;
  const OpenedTexts::Key key{options.data_dir, in_documents};
  if (options.texts == nullptr) return read(key, options.activity);
  OpenedTexts& opened = *options.texts;
  if (opened.corpus == nullptr || opened.key != key) opened = {key, read(key, options.activity)};
  return opened.corpus;
}

DatasetPtr open_text(const DatasetOptions& options, Split split) {
  const auto corpus = open_text_corpus(options);
  const SampleSpec spec = spec_for(options, *corpus);
  const std::string source = options.data_dir.string();
  if (split == Split::test) {
    return make_windows(corpus->test, {.kind = WindowRule::Kind::each}, spec, options.seed,
                        source + ", the part that is evaluated");
  }
  return make_windows(corpus->train, WindowRule::parse(options.windows), spec, options.seed, source);
}

SampleSpec text_spec(const DatasetOptions& options) {
  return spec_for(options, *open_text_corpus(options));
}

std::vector<std::string> text_class_names(const DatasetOptions& options) {
  return options.data_dir.empty() ? std::vector<std::string>() : open_text_corpus(options)->names;
}

std::int64_t settled_vocab_size(const DatasetOptions& options, std::int64_t own) {
  if (options.seq_len < 1) {
    throw UsageError(fmt::format(
        "{}: the model takes no sequences of tokens; `trainer models` lists those that do", options.name));
  }
  if (!options.vocab_size_given) return own;
  if (options.vocab_size >= own) return options.vocab_size;
  throw UsageError(fmt::format("vocab_size {}: the {} data have {} tokens; leave it out", options.vocab_size,
                               options.name, own));
}

}  // namespace lockstep::data
