#pragma once

#include <filesystem>
#include <optional>

#include "data/datasets.h"
#include "data/text/tokenizer.h"
#include "runtime/plugin/registry.h"
#include "runtime/weights/weights_file.h"

namespace lockstep::runtime {

/// What text is read for, with the numbers that weights know its tokens by.
enum class TextUse { training, scores };

/// Tokens of text keep the numbers that weights know them by: those of the characters that are kept with
/// these, else of the tokenizer that came with them (`tokenizer_of`, to which `config` belongs), unless
/// another was typed. UsageError where nothing tells these numbers; DataError where the tokenizer is not that
/// of their training, which only one that is typed for training may be.
void take_numbers_of_tokens(const WeightsFile& weights, const std::optional<std::filesystem::path>& config,
                            TextUse use, const Registry& registry, data::DatasetOptions& dataset);

/// Opens the tokenizer at `path`. DataError where the weights tell that they were trained with another.
data::TokenizerPtr open_tokenizer_for(const WeightsFile& weights, const std::filesystem::path& path);

}  // namespace lockstep::runtime
