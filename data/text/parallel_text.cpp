#include "data/text/parallel_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/folders.h"
#include "data/text/sample_lines.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/file_status.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

/// Two files of as many lines.
struct FilePair {
  FilePair(fs::path source, fs::path target)
      : paths{std::move(source), std::move(target)}, files{MappedFile(paths[0]), MappedFile(paths[1])} {
    for (std::size_t side = 0; side < 2; ++side)
      for_each_line(text(side), [&](std::string_view line, std::size_t) { lines[side].push_back(line); });
    if (lines[0].size() == lines[1].size()) return;
    throw DataError(fmt::format("{}: {} lines, but {} has {}", paths[1].string(), lines[1].size(),
                                paths[0].string(), lines[0].size()));
  }

  std::string_view text(std::size_t side) const { return checked_utf8(paths[side], files[side].bytes()); }

  FilePart line(std::size_t side, std::size_t number) const {
    const std::string_view line = lines[side][number];
    const auto* const begin = reinterpret_cast<const char*>(files[side].bytes().data());
    return {paths[side], static_cast<std::size_t>(line.data() - begin), line};
  }

  std::array<fs::path, 2> paths;
  std::array<MappedFile, 2> files;
  std::array<std::vector<std::string_view>, 2> lines{};
};

/// Of a split, as tokens.
struct Pairs {
  TokenSequences sources;
  TokenSequences targets;
  SampleLines lines;
};

struct ParallelCorpus {
  Vocabulary vocabulary;
  Pairs train;
  Pairs test;
};

fs::path target_of(const DatasetOptions& options, fs::path source) {
  if (!options.target_file.empty()) return options.target_file;
  if (source.extension() == ".src") return source.replace_extension(".tgt");
  throw UsageError(fmt::format(
      "parallel-text: where are the translations of {}? give them by --target-file FILE", source.string()));
}

std::vector<FilePair> open_files(const DatasetOptions& options, const std::vector<fs::path>& sources) {
  std::vector<FilePair> files;
  for (const fs::path& source : sources) files.emplace_back(source, target_of(options, source));
  return files;
}

/// `before`: lines of the files before this one.
void add_lines(const FilePair& files, std::size_t begin, std::size_t end, std::size_t before,
               const Tokenizer& tokenizer, Pairs& pairs, Activity::Work& reading) {
  for (std::size_t i = begin; i < end; ++i) {
    if (files.lines[0][i].empty() || files.lines[1][i].empty()) {
      pairs.lines.leave_out();
      continue;
    }
    pairs.sources.add(files.line(0, i), tokenizer);
    pairs.targets.add(files.line(1, i), tokenizer);
    pairs.lines.add(static_cast<std::int64_t>(before + i));
    reading.advance();
  }
}

ParallelCorpus read(const DatasetOptions& options) {
  Activity::Work reading(options.activity, "reading text of " + options.data_dir.string());
  const SplitFiles paths = split_files(options, ".src");
  if (fs::is_directory(status_at(options.data_dir)) && !options.target_file.empty())
    throw UsageError("--target-file is for one file; in a folder each FILE.src has its FILE.tgt");
  const std::vector<FilePair> train = open_files(options, paths.train);
  const std::vector<FilePair> test = open_files(options, paths.test);
  std::vector<std::string_view> texts;
  for (const auto* split : {&train, &test}) {
    for (const FilePair& files : *split) {
      for (const auto& side : files.lines) texts.insert(texts.end(), side.begin(), side.end());
    }
  }
  ParallelCorpus corpus{.vocabulary = vocabulary_of(options, texts)};
  const Tokenizer& tokenizer = *corpus.vocabulary.tokenizer;
  std::size_t before = 0;
  for (const FilePair& files : train) {
    const std::size_t lines = files.lines[0].size();
    const std::size_t cut = test.empty() ? static_cast<std::size_t>(static_cast<double>(lines) * 0.9) : lines;
    add_lines(files, 0, cut, before, tokenizer, corpus.train, reading);
    add_lines(files, cut, lines, before, tokenizer, corpus.test, reading);
    before += lines;
  }
  before = 0;
  for (const FilePair& files : test) {
    add_lines(files, 0, files.lines[0].size(), before, tokenizer, corpus.test, reading);
    before += files.lines[0].size();
  }
  for (Pairs* pairs : {&corpus.train, &corpus.test}) {
    pairs->sources.finish(tokenizer.size());
    pairs->targets.finish(tokenizer.size());
  }
  return corpus;
}

std::shared_ptr<const ParallelCorpus> open_corpus(const DatasetOptions& options) {
  if (options.data_dir.empty()) throw UsageError("parallel-text: give the source by --data-dir FILE.src");
  return OpenedTexts::of<ParallelCorpus>(options, read);
}

SampleSpec spec_for(const DatasetOptions& options, const ParallelCorpus& corpus) {
  const std::int64_t vocab_size = settled_vocab_size(options, corpus.vocabulary.tokenizer->size() + 1);
  if (!options.per_token)
    throw UsageError(
        "parallel-text has a target for each token, which the model does not want: take transformer");
  SampleSpec spec = window_spec(options.seq_len, options.per_token, vocab_size);
  spec.source_length = options.seq_len;
  spec.input_shape = {2 * options.seq_len};
  return spec;
}

class ParallelText final : public Dataset {
 public:
  ParallelText(std::shared_ptr<const ParallelCorpus> corpus, const Pairs& pairs, const SampleSpec& spec)
      : corpus_(std::move(corpus)),
        pairs_(&pairs),
        spec_(spec),
        boundary_(corpus_->vocabulary.tokenizer->size()) {}

  std::int64_t size() const override { return pairs_->sources.size(); }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const auto length = static_cast<std::size_t>(spec_.source_length);
    const std::span row(reinterpret_cast<std::int64_t*>(input.data()), 2 * length);
    const std::span targets(reinterpret_cast<std::int64_t*>(target.data()), length);
    pairs_->sources.copy(index, row.first(length));
    row[length] = boundary_;
    pairs_->targets.copy(index, row.subspan(length + 1));
    pairs_->targets.copy(index, targets);
    const auto tokens = static_cast<std::size_t>(pairs_->targets.length(index));
    if (tokens >= length) return;  // cut: its end does not come
    targets[tokens] = boundary_;
    std::ranges::fill(targets.subspan(tokens + 1), no_class);
  }

  std::int64_t valid_targets(std::int64_t index, std::int64_t) const override {
    return std::min(pairs_->targets.length(index) + 1, spec_.source_length);
  }

  std::int64_t length(std::int64_t index) const override {
    return spec_.source_length + valid_targets(index, 0);
  }

  std::int64_t place_of(std::int64_t index) const override { return pairs_->lines.line_of(index); }

  /// A translation takes the token of its end, too.
  std::string warning() const override {
    const std::string cut = warning_of_cut(size(), spec_.source_length, [this](std::int64_t index) {
      return std::max(pairs_->sources.length(index), pairs_->targets.length(index) + 1);
    });
    return joined(pairs_->lines.warning("pairs of lines", "have an empty side"), cut);
  }

  void each_content(const TakeBytes& take) const override {
    pairs_->sources.each_content(take);
    pairs_->targets.each_content(take);
  }

 private:
  std::shared_ptr<const ParallelCorpus> corpus_;
  const Pairs* pairs_;
  SampleSpec spec_;
  std::int64_t boundary_;
};

}  // namespace

DatasetPtr open_parallel_text(const DatasetOptions& options, Split split) {
  const auto corpus = open_corpus(options);
  const Pairs& pairs = split == Split::train ? corpus->train : corpus->test;
  const SampleSpec spec = spec_for(options, *corpus);
  if (pairs.sources.size() == 0) {
    throw DataError(fmt::format("{}: no pair of lines {}", options.data_dir.string(),
                                split == Split::train ? "to train on" : "to evaluate"));
  }
  return std::make_shared<ParallelText>(corpus, pairs, spec);
}

SampleSpec parallel_text_spec(const DatasetOptions& options) {
  return spec_for(options, *open_corpus(options));
}

std::vector<std::string> parallel_text_class_names(const DatasetOptions& options) {
  std::vector<std::string> names = parallel_text_token_names(options);
  if (!names.empty()) names.emplace_back();  // of the boundary
  return names;
}

std::vector<std::string> parallel_text_token_names(const DatasetOptions& options) {
  return options.data_dir.empty() ? std::vector<std::string>() : open_corpus(options)->vocabulary.names;
}

}  // namespace lockstep::data
