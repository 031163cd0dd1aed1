#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/datasets.h"
#include "data/text/vocabulary.h"

namespace lockstep::data {

/// Files of text as tokens.
struct TextCorpus {
  Vocabulary vocabulary;
  std::vector<TokenPiece> train{};
  std::vector<TokenPiece> test{};
};

/// `data_dir`: a file, of which the first nine tenths of the characters train, or a folder with files
/// train*.txt and val*.txt. The vocabulary is that of --tokenizer, else all its characters. A document ends
/// behind an empty line and with its file. DataError names the file, and the offset of what is no UTF-8.
std::shared_ptr<const TextCorpus> open_text_corpus(const DatasetOptions& options);

/// Windows of it (windows.h): Split::test side by side, whatever the rule for training; where that packs,
/// documents in them do not see each other.
DatasetPtr open_text(const DatasetOptions& options, Split split);
SampleSpec text_spec(const DatasetOptions& options);
std::vector<std::string> text_class_names(const DatasetOptions& options);

}  // namespace lockstep::data
