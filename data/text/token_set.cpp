#include "data/text/token_set.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "data/folders.h"
#include "data/text/token_file.h"
#include "data/text/vocabulary.h"
#include "kernels/base/error.h"
#include "kernels/base/file_status.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

struct TokenFiles {
  std::vector<TokenFile> train;
  std::vector<TokenFile> test;
  bool has_test_files = false;
};

TokenFiles open_files(const DatasetOptions& options) {
  if (options.data_dir.empty()) throw UsageError("tokens: give the file by --data-dir FILE.bin, or a folder");
  const SplitFiles paths = token_files(options);
  TokenFiles files{.train = {}, .test = {}, .has_test_files = !paths.test.empty()};
  for (const fs::path& path : paths.train) files.train.push_back(open_token_file(path, options.token_dtype));
  for (const fs::path& path : paths.test) files.test.push_back(open_token_file(path, options.token_dtype));
  return files;
}

/// As its file has it: what is too large for a token may be below 0 there.
std::int64_t number_at(const TokenFile& file, std::int64_t at) {
  const TokenSpan token = file.tokens.part(at, at + 1);
  std::int64_t number = 0;
  token.copy_to(std::span(&number, 1));
  if (!file.has_signs) return number;
  if (token.width() == sizeof(std::int32_t)) return static_cast<std::int32_t>(number);
  std::memcpy(&number, token.bytes().data(), sizeof number);
  return number;
}

/// The first that is not below `most`, and why.
[[noreturn]] void refuse_token(const TokenFile& file, std::int64_t most, const std::string& reason) {
  const std::int64_t at = file.tokens.find_at_least(most);
  const std::int64_t token = number_at(file, at);
  throw DataError(fmt::format("{}: offset {}: token {}, but {}", file.path.string(),
                              file.offset + static_cast<std::size_t>(at) * file.tokens.width(), token,
                              reason));
}

/// Of --tokenizer PATH, which knows tokens that these files may not have; 0 where none is given.
std::int64_t tokens_of_tokenizer(const DatasetOptions& options) {
  if (options.tokenizer.empty() || options.tokenizer == "characters") return 0;
  const auto read = [](const DatasetOptions& given) { return open_tokenizer(given.tokenizer)->size(); };
  return *OpenedTexts::of<std::int64_t>(options, read);
}

SampleSpec spec_of(const DatasetOptions& options, const TokenFiles& files) {
  const std::int64_t of_tokenizer = options.vocab_size_given ? 0 : tokens_of_tokenizer(options);
  std::int64_t vocab_size = options.vocab_size_given ? options.vocab_size : of_tokenizer;
  settled_vocab_size(options, vocab_size);
  const std::int64_t most = vocab_size > 0 ? vocab_size : most_classes;
  const std::string reason = of_tokenizer > 0
                                 ? fmt::format("--tokenizer {} knows {}: give the one that made these tokens",
                                               options.tokenizer.string(), most)
                                 : fmt::format("the vocabulary has {}", most);
  for (const auto* split : {&files.train, &files.test}) {
    for (const TokenFile& file : *split) {
      const std::int64_t largest = largest_token(file, default_cache_folder(), options.activity);
      if (largest >= most) refuse_token(file, most, reason);
      vocab_size = std::max(vocab_size, largest + 1);
    }
  }
  return window_spec(options.seq_len, options.per_token, vocab_size, WindowRule::parse(options.windows));
}

std::vector<std::int64_t> boundary_tokens(const TokenFile& file, const WindowRule& rule) {
  return rule.boundary ? std::vector{*rule.boundary} : file.usual_boundaries;
}

bool are_documents_listed(const TokenFile& file, const WindowRule& rule) {
  return file.documents && !rule.boundary;
}

/// In a larger vocabulary than GPT-2's its end of text is the number of a word.
bool is_a_word(std::int64_t boundary, const TokenFile& file) {
  return boundary == gpt2_end_of_text && file.tokens.width() > 2 &&
         file.tokens.find_at_least(boundary + 1) < file.tokens.size();
}

/// Where documents begin, or the tokens that part them are.
std::vector<std::int64_t> starts_in(const TokenFile& file, const WindowRule& rule) {
  if (are_documents_listed(file, rule)) return *file.documents;
  for (const std::int64_t token : boundary_tokens(file, rule)) {
    if (!rule.boundary && is_a_word(token, file)) continue;
    std::vector<std::int64_t> places = file.tokens.positions_of(token);
    if (!places.empty()) return places;
  }
  return {};
}

/// Inside [begin, end): what the format tells of, else from one boundary up to the next, which ends a
/// document as its last target and begins the next one as its first input.
std::vector<TokenPiece::Document> documents_of(const TokenFile& file, const WindowRule& rule,
                                               std::int64_t begin, std::int64_t end) {
  const bool are_listed = are_documents_listed(file, rule);
  std::vector<std::int64_t> starts = starts_in(file, rule);
  starts.push_back(end);
  std::vector<TokenPiece::Document> documents;
  std::int64_t from = begin;
  for (const std::int64_t start : starts) {
    const std::int64_t to = std::clamp(start, from, end);
    const bool is_shared = !are_listed && to < end;
    if (to > from) documents.push_back({from - begin, to + (is_shared ? 1 : 0) - begin});
    from = to;
  }
  return documents;
}

TokenPiece piece_of(const TokenFile& file, std::int64_t begin, std::int64_t end, const WindowRule& rule) {
  TokenPiece piece{.tokens = file.tokens.part(begin, end), .owner = file.file};
  if (rule.wants_documents()) piece.documents = documents_of(file, rule, begin, end);
  return piece;
}

/// Else windows would reach across all documents, without a word.
void require_parted(const std::vector<TokenFile>& files, const std::vector<TokenPiece>& pieces,
                    const WindowRule& rule) {
  const auto is_whole = [](const TokenPiece& piece) { return piece.documents.size() <= 1; };
  const auto is_parted = [&](const TokenFile& file) {
    return are_documents_listed(file, rule) || !starts_in(file, rule).empty();
  };
  if (!rule.wants_documents() || !std::ranges::all_of(pieces, is_whole)) return;
  if (std::ranges::any_of(files, is_parted)) return;
  throw DataError(
      fmt::format("{}: no token {} is here, which would part documents; name the one that does, by --windows "
                  "documents=ID or packed=ID, or give --windows each",
                  files.front().path.string(), fmt::join(boundary_tokens(files.front(), rule), " or ")));
}

bool has_arrays_alone(const fs::path& folder) {
  if (!fs::is_directory(status_at(folder))) return false;
  const std::vector<std::string> names = files_in(folder);
  const auto has = [&](const char* extension) {
    return std::ranges::any_of(names, [&](const std::string& name) { return name.ends_with(extension); });
  };
  return has(".npy") && !has(".bin");
}

}  // namespace

SplitFiles token_files(const DatasetOptions& options) {
  const fs::path& place = options.data_dir;
  SplitFiles files = split_files(options, has_arrays_alone(place) ? ".npy" : ".bin");
  if (fs::is_directory(status_at(place)) || options.data_are_new) return files;
  std::string name = place.filename().string();
  const std::size_t at = name.rfind("train");
  if (at == std::string::npos) return files;
  const fs::path neighbour = place.parent_path() / name.replace(at, 5, "val");
  if (fs::exists(status_at(neighbour))) files.test = {neighbour};
  return files;
}

DatasetPtr open_tokens(const DatasetOptions& options, Split split) {
  WindowRule rule = WindowRule::parse(options.windows);
  const TokenFiles files = open_files(options);
  const SampleSpec spec = spec_of(options, files);
  if (split == Split::test) rule = rule.for_evaluation();
  std::vector<TokenPiece> pieces;
  if (files.has_test_files) {
    for (const TokenFile& file : split == Split::train ? files.train : files.test)
      pieces.push_back(piece_of(file, 0, file.tokens.size(), rule));
  } else {
    for (const TokenFile& file : files.train) {
      const auto cut = static_cast<std::int64_t>(static_cast<double>(file.tokens.size()) * 0.9);
      pieces.push_back(split == Split::train ? piece_of(file, 0, cut, rule)
                                             : piece_of(file, cut, file.tokens.size(), rule));
    }
  }
  if (split == Split::train && !files.train.empty()) require_parted(files.train, pieces, rule);
  const std::string source =
      options.data_dir.string() + (split == Split::test ? ", the part that is evaluated" : "");
  return make_windows(std::move(pieces), rule, spec, options.seed, source);
}

SampleSpec tokens_spec(const DatasetOptions& options) {
  return spec_of(options, open_files(options));
}

}  // namespace lockstep::data
