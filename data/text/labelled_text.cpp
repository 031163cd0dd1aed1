#include "data/text/labelled_text.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "data/files/fail.h"
#include "data/folders.h"
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

struct Text {
  fs::path path;
  std::size_t offset;  ///< in the file
  std::string text;
  std::string label;
};

struct Texts {
  std::vector<std::string> labels;
  std::vector<Text> train;
  std::vector<Text> test;
};

/// Of a split, as tokens.
struct Samples {
  TokenSequences sequences;
  std::vector<std::int64_t> classes;
};

struct LabelledCorpus {
  Vocabulary vocabulary;
  std::vector<std::string> labels;
  Samples train;
  Samples test;
};

std::vector<std::string> ordered(const std::set<std::string>& labels) {
  std::vector<std::string> names(labels.begin(), labels.end());
  const auto number = [](const std::string& label) { return parse_number<std::int64_t>(label); };
  const bool are_numbers =
      std::ranges::all_of(names, [&](const auto& label) { return number(label).has_value(); });
  if (are_numbers) std::ranges::stable_sort(names, {}, [&](const auto& label) { return *number(label); });
  return names;
}

std::vector<Text> lines_of(const fs::path& path) {
  const MappedFile file(path);
  std::vector<Text> texts;
  for_each_line(checked_utf8(path, file.bytes()), [&](std::string_view line, std::size_t offset) {
    if (line.empty()) return;
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) fail(path, offset, "this line has no tab between label and text");
    if (tab == 0 || tab + 1 == line.size()) fail(path, offset, "this line has no label, or no text");
    const std::size_t begin = tab + 1;
    texts.push_back(
        {path, offset + begin, std::string(line.substr(begin)), std::string(line.substr(0, tab))});
  });
  if (texts.empty()) fail(path, 0, "the file has no lines");
  return texts;
}

Texts read_lines(const SplitFiles& files) {
  Texts texts;
  std::set<std::string> labels;
  const auto take = [&](const std::vector<fs::path>& paths, bool tell_labels, double trained_on) {
    for (const fs::path& path : paths) {
      std::vector<Text> lines = lines_of(path);
      const auto cut = static_cast<std::size_t>(static_cast<double>(lines.size()) * trained_on);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        if (tell_labels) labels.insert(lines[i].label);
        (i < cut ? texts.train : texts.test).push_back(std::move(lines[i]));
      }
    }
  };
  take(files.train, true, files.test.empty() ? 0.9 : 1.0);
  take(files.test, files.train.empty(), 0.0);
  texts.labels = ordered(labels);
  return texts;
}

/// The ends of its last lines are no part of a text.
void add_files(const fs::path& folder, const std::string& label, std::vector<Text>& texts) {
  const std::size_t before = texts.size();
  for (const std::string& below : folders_below(folder)) {
    for (const std::string& name : files_in(below)) {
      if (!name.ends_with(".txt")) continue;
      const fs::path path = fs::path(below) / name;
      const MappedFile file(path);
      const FilePart part = file_text(path, file.bytes());
      const std::string_view text = part.text.substr(0, part.text.find_last_not_of("\r\n") + 1);
      if (text.empty()) fail(path, 0, "the file holds no text");
      texts.push_back({path, part.offset, std::string(text), label});
    }
  }
  if (texts.size() == before) fail(folder, "no .txt files for this class");
}

Texts read_folders(const fs::path& root) {
  Texts texts;
  const SplitFolders folders = split_folders(root);
  texts.labels = class_folders_in(folders.classes());
  if (texts.labels.empty()) {
    throw DataError(
        fmt::format("{}: neither train*.tsv files nor folders of .txt files for each class are here",
                    folders.classes().string()));
  }
  const auto add = [](const fs::path& folder, std::vector<Text>& to) {
    if (folder.empty()) return;
    for (const std::string& label : class_folders_in(folder)) add_files(folder / label, label, to);
  };
  add(folders.train, texts.train);
  add(folders.test, texts.test);
  return texts;
}

bool has_lines(const fs::path& place) {
  if (!fs::is_directory(status_at(place))) return true;
  return std::ranges::any_of(files_in(place), [](const std::string& name) { return name.ends_with(".tsv"); });
}

Samples samples_of(const std::vector<Text>& texts, const std::vector<std::string>& labels,
                   const Tokenizer& tokenizer, Activity::Work& reading) {
  Samples samples;
  for (const Text& text : texts) {
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
    for (const Text& text : *split) all.push_back(text.text);
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

  std::string warning() const override {
    return warning_of_cut(size(), spec_.input_shape[0],
                          [this](std::int64_t index) { return samples_->sequences.length(index); });
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
