#include "data/text/labelled_text.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "data/files/fail.h"
#include "data/folders.h"
#include "data/text/labelled_files.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"
#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/file_status.h"
#include "kernels/base/number.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

/// Of a split, as tokens.
struct Samples {
  TokenSequences sequences;
  std::vector<std::int64_t> classes;
  SampleLines lines;
};

struct LabelledCorpus {
  Vocabulary vocabulary;
  std::vector<std::string> labels;
  Samples train;
  Samples test;
};

Samples samples_of(const SplitTexts& split, const std::vector<std::string>& labels,
                   const Tokenizer& tokenizer, Activity::Work& reading) {
  Samples samples{.sequences = {}, .classes = {}, .lines = split.lines};
  for (const Text& text : split.texts) {
    const auto label = std::ranges::find(labels, text.label);
    if (label == labels.end())
      throw DataError(fmt::format("{}: training has no class '{}'", text.path.string(), text.label));
    samples.sequences.add({text.path, text.offset, text.text}, tokenizer);
    samples.classes.push_back(label - labels.begin());
    reading.advance();
  }
  samples.sequences.finish(tokenizer.size());
  return samples;
}

LabelledCorpus read(const DatasetOptions& options) {
  Activity::Work reading(options.activity, "reading text of " + options.data_dir.string());
  const Texts texts =
      has_lines(options.data_dir) ? read_lines(split_files(options, ".tsv")) : read_folders(options.data_dir);
  std::vector<std::string_view> all;
  for (const auto* split : {&texts.train, &texts.test}) {
    for (const Text& text : split->texts) all.push_back(text.text);
  }
  LabelledCorpus corpus{.vocabulary = vocabulary_of(options, all),
                        .labels = options.class_names.empty() ? texts.labels : options.class_names};
  const Tokenizer& tokenizer = *corpus.vocabulary.tokenizer;
  corpus.train = samples_of(texts.train, corpus.labels, tokenizer, reading);
  corpus.test = samples_of(texts.test, corpus.labels, tokenizer, reading);
  return corpus;
}

std::shared_ptr<const LabelledCorpus> open_corpus(const DatasetOptions& options) {
  if (options.data_dir.empty())
    throw UsageError("labelled-text: give the file by --data-dir FILE.tsv, or a folder");
  return OpenedTexts::of<LabelledCorpus>(options, read);
}

SampleSpec spec_for(const DatasetOptions& options, const LabelledCorpus& corpus) {
  const std::int64_t vocab_size = settled_vocab_size(options, corpus.vocabulary.tokenizer->size());
  if (options.per_token)
    throw UsageError(
        "labelled-text has a class for each text, and the model wants one for each token: take rnn");
  SampleSpec spec = window_spec(options.seq_len, options.per_token, vocab_size);
  spec.num_classes = std::ssize(corpus.labels);
  return spec;
}

/// As in a file that is ordered by class. Empty where the texts that are held back have all classes.
std::string note_on_classes(const LabelledCorpus& corpus) {
  const std::set<std::int64_t> held_back(corpus.test.classes.begin(), corpus.test.classes.end());
  const std::size_t lacking = corpus.labels.size() - held_back.size();
  if (lacking == 0) return {};
  return fmt::format("; it lacks {} of {} classes: shuffle the lines", lacking, corpus.labels.size());
}

class LabelledText final : public Dataset {
 public:
  LabelledText(std::shared_ptr<const LabelledCorpus> corpus, const Samples& samples, const SampleSpec& spec)
      : corpus_(std::move(corpus)), samples_(&samples), spec_(spec) {}

  std::int64_t size() const override { return samples_->sequences.size(); }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    samples_->sequences.copy(index, {reinterpret_cast<std::int64_t*>(input.data()), input.size() / 8});
    std::memcpy(target.data(), &samples_->classes[static_cast<std::size_t>(index)], sizeof(std::int64_t));
  }

  std::int64_t length(std::int64_t index) const override {
    return std::min(samples_->sequences.length(index), spec_.input_shape[0]);
  }

  std::int64_t place_of(std::int64_t index) const override { return samples_->lines.line_of(index); }

  std::string warning() const override {
    const std::string cut = warning_of_cut(size(), spec_.input_shape[0], [this](std::int64_t index) {
      return samples_->sequences.length(index);
    });
    return joined(samples_->lines.warning("lines", "hold nothing"), cut);
  }

  void each_content(const TakeBytes& take) const override {
    samples_->sequences.each_content(take);
    take(std::as_bytes(std::span(samples_->classes)));
  }

 private:
  std::shared_ptr<const LabelledCorpus> corpus_;
  const Samples* samples_;
  SampleSpec spec_;
};

}  // namespace

DatasetPtr open_labelled_text(const DatasetOptions& options, Split split) {
  const auto corpus = open_corpus(options);
  const Samples& samples = split == Split::train ? corpus->train : corpus->test;
  const SampleSpec spec = spec_for(options, *corpus);
  if (samples.sequences.size() == 0) {
    if (!has_lines(options.data_dir)) split_folder(options.data_dir, split);  // tells what is not there
    throw DataError(fmt::format("{}: too few texts to hold a tenth back", options.data_dir.string()));
  }
  return std::make_shared<LabelledText>(corpus, samples, spec);
}

SampleSpec labelled_text_spec(const DatasetOptions& options) {
  return spec_for(options, *open_corpus(options));
}

std::vector<std::string> labelled_text_class_names(const DatasetOptions& options) {
  return options.data_dir.empty() ? std::vector<std::string>() : open_corpus(options)->labels;
}

std::vector<std::string> labelled_text_token_names(const DatasetOptions& options) {
  return options.data_dir.empty() ? std::vector<std::string>() : open_corpus(options)->vocabulary.names;
}

std::string labelled_text_note(const DatasetOptions& options) {
  if (!has_lines(options.data_dir)) return note_on_splits(options.data_dir);
  const std::string note = note_on(split_files(options, ".tsv"));
  return note.empty() ? note : note + note_on_classes(*open_corpus(options));
}

}  // namespace lockstep::data
