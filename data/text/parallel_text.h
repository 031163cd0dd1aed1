#pragma once

#include <string>
#include <vector>

#include "data/datasets.h"

namespace lockstep::data {

/// Texts and their translations, line by line: `data_dir` FILE.src with FILE.tgt beside it, or any file with
/// `target_file`, of which the last tenth is evaluated; or a folder with train*.src and val*.src, each with
/// its .tgt. Pairs in which a line is empty are passed over.
///
/// A row is `seq_len` tokens of the source, then as many of the target's input: a boundary and the
/// translation; the targets are the translation and a boundary. What is longer is cut, what is shorter filled
/// with -1, and -100. The boundary is the token behind the vocabulary, which is that of --tokenizer, else the
/// characters of both sides; its name is empty. DataError where the files differ in their lines. UsageError
/// when the model does not want a class for each token.
DatasetPtr open_parallel_text(const DatasetOptions& options, Split split);
SampleSpec parallel_text_spec(const DatasetOptions& options);
std::vector<std::string> parallel_text_class_names(const DatasetOptions& options);
std::vector<std::string> parallel_text_token_names(const DatasetOptions& options);

}  // namespace lockstep::data
