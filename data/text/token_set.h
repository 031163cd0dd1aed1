#pragma once

#include "data/datasets.h"
#include "data/folders.h"

namespace lockstep::data {

/// `data_dir`: a file of tokens (token_file.h), or a folder with files train*.bin and val*.bin; beside a file
/// that has "train" in its name one with "val" in its place is evaluated. Where there is none to evaluate,
/// that is the last tenth of each file. Split::test is windows side by side, whatever the rule for training;
/// where that packs, documents in them do not see each other.
///
/// Where documents are wanted for training, DataError if no file has one of the tokens that could part them.
///
/// The vocabulary is as large as was typed, else as the tokenizer's, else as the largest token of all files
/// and one. DataError names the file and the offset of a token that is not in it.
DatasetPtr open_tokens(const DatasetOptions& options, Split split);
SampleSpec tokens_spec(const DatasetOptions& options);

/// Which files these are.
SplitFiles token_files(const DatasetOptions& options);

}  // namespace lockstep::data
