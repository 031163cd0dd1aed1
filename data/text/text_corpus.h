#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/datasets.h"
#include "data/text/tokenizer.h"
#include "data/text/windows.h"

namespace lockstep::data {

/// Files of text as tokens.
struct TextCorpus {
  TokenizerPtr tokenizer;
  std::vector<std::string> names{};  ///< of its tokens, where they are characters
  std::vector<TokenPiece> train{};
  std::vector<TokenPiece> test{};
};

/// What was opened last: training set, test set and names of classes come from one reading. Used by one
/// thread at a time.
class OpenedTexts {
 public:
  struct Key {
    std::filesystem::path place;
    bool in_documents = false;

    bool operator==(const Key&) const = default;
  };
  Key key{};
  std::shared_ptr<const TextCorpus> corpus{};
};

/// `data_dir`: a file, of which the first nine tenths of the characters train, or a folder with files
/// train*.txt and val*.txt. The vocabulary is of all its characters. A document ends behind an empty line and
/// with its file. DataError names the file, and the offset of what is no UTF-8.
std::shared_ptr<const TextCorpus> open_text_corpus(const DatasetOptions& options);

/// Windows of it (windows.h): Split::test side by side, whatever the rule for training.
DatasetPtr open_text(const DatasetOptions& options, Split split);
SampleSpec text_spec(const DatasetOptions& options);
std::vector<std::string> text_class_names(const DatasetOptions& options);

/// The size of the vocabulary that a model gets for data with one of `own` tokens: what was typed, if any.
/// UsageError when that is smaller; and when the model takes no sequences.
std::int64_t settled_vocab_size(const DatasetOptions& options, std::int64_t own);

}  // namespace lockstep::data
