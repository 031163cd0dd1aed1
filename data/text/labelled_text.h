#pragma once

#include <string>
#include <vector>

#include "data/datasets.h"

namespace lockstep::data {

/// Texts with a class each: the first `seq_len` tokens of a text, filled with -1, and the number of its
/// class. `data_dir`:
/// - a file of lines "label<TAB>text", of which the last tenth is evaluated, or a folder with train*.tsv
///   and val*.tsv (without these: the last tenth of each); classes are the labels for training, in the order
///   of their numbers if all are such, else of their bytes;
/// - a folder with a folder of .txt files for each class, below train and val if there are (`split_folder`).
/// The vocabulary is that of --tokenizer, else the characters of all texts. DataError names the file, and the
/// offset of a line that is wrong. UsageError when the model wants a class for each token.
DatasetPtr open_labelled_text(const DatasetOptions& options, Split split);
SampleSpec labelled_text_spec(const DatasetOptions& options);
std::vector<std::string> labelled_text_class_names(const DatasetOptions& options);
std::vector<std::string> labelled_text_token_names(const DatasetOptions& options);
std::string labelled_text_note(const DatasetOptions& options);

}  // namespace lockstep::data
