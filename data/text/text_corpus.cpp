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
  fs::path path;
  std::size_t offset;  ///< in the file
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

TokenPiece encoded(const Tokenizer& tokenizer, const Part& part, bool in_documents, Activity* activity) {
  std::vector<std::uint32_t> ids;
  std::vector<TokenPiece::Document> documents;
  for (const std::string_view document : in_documents ? documents_in(part.text) : std::vector{part.text}) {
    const std::int64_t begin = std::ssize(ids);
    const auto at = static_cast<std::size_t>(document.data() - part.text.data());
    encode_from({part.path, part.offset + at, document}, tokenizer, ids, activity);
    if (in_documents) documents.push_back({begin, std::ssize(ids)});
  }
  TokenPiece piece = piece_of(ids, tokenizer.size());
  piece.documents = std::move(documents);
  return piece;
}

void add_parts(const FilePart& file, bool has_test_files, Split split, std::vector<Part>& parts) {
  const auto& [path, begin, text] = file;
  if (split == Split::test || has_test_files) return parts.push_back({path, begin, text, split});
  // As nanoGPT: int(n * 0.9) characters.
  const auto for_training = static_cast<std::int64_t>(static_cast<double>(count_characters(text)) * 0.9);
  const std::size_t cut = utf8_prefix(text, for_training);
  parts.push_back({path, begin, text.substr(0, cut), Split::train});
  parts.push_back({path, begin + cut, text.substr(cut), Split::test});
}

TextCorpus read(const DatasetOptions& options) {
  Activity::Work reading(options.activity, "reading text of " + options.data_dir.string());
  const WindowRule rule = WindowRule::parse(options.windows);
  if (rule.boundary) {
    throw UsageError(
        fmt::format("--windows {}: text is parted at its empty lines, not at a token: leave ={} out, or "
                    "make tokens of the text (`trainer datasets tokenize`) and give --dataset tokens",
                    options.windows, *rule.boundary));
  }
  const SplitFiles files = split_files(options, ".txt");
  std::vector<MappedFile> mapped;
  std::vector<std::string_view> texts;
  std::vector<Part> parts;
  const auto take = [&](const std::vector<fs::path>& paths, Split split) {
    for (const fs::path& path : paths) {
      const FilePart file = file_text(path, mapped.emplace_back(path).bytes());
      if (file.text.empty()) throw DataError(fmt::format("{}: offset 0: the file is empty", path.string()));
      texts.push_back(file.text);
      add_parts(file, !files.test.empty(), split, parts);
      reading.advance();
    }
  };
  take(files.train, Split::train);
  take(files.test, Split::test);
  TextCorpus corpus{.vocabulary = vocabulary_of(options, texts)};
  for (const Part& part : parts) {
    const bool trains = part.split == Split::train;
    (trains ? corpus.train : corpus.test)
        .push_back(encoded(*corpus.vocabulary.tokenizer, part,
                           (trains ? rule : rule.for_evaluation()).wants_documents(), options.activity));
  }
  return corpus;
}

SampleSpec spec_for(const DatasetOptions& options, const TextCorpus& corpus) {
  return window_spec(options.seq_len, options.per_token,
                     settled_vocab_size(options, corpus.vocabulary.tokenizer->size()),
                     WindowRule::parse(options.windows));
}

}  // namespace

std::shared_ptr<const TextCorpus> open_text_corpus(const DatasetOptions& options) {
  if (options.data_dir.empty()) throw UsageError("text: give the file by --data-dir FILE.txt");
  return OpenedTexts::of<TextCorpus>(options, read);
}

DatasetPtr open_text(const DatasetOptions& options, Split split) {
  const auto corpus = open_text_corpus(options);
  const SampleSpec spec = spec_for(options, *corpus);
  const std::string source = options.data_dir.string();
  const WindowRule rule = WindowRule::parse(options.windows);
  if (split == Split::train) return make_windows(corpus->train, rule, spec, options.seed, source);
  return make_windows(corpus->test, rule.for_evaluation(), spec, options.seed,
                      source + ", the part that is evaluated");
}

SampleSpec text_spec(const DatasetOptions& options) {
  return spec_for(options, *open_text_corpus(options));
}

std::vector<std::string> text_class_names(const DatasetOptions& options) {
  return options.data_dir.empty() ? std::vector<std::string>() : open_text_corpus(options)->vocabulary.names;
}

}  // namespace lockstep::data
