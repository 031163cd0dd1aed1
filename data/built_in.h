#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "data/dataset.h"
#include "data/datasets.h"

namespace lockstep::data {

SampleSpec synthetic_spec(const DatasetOptions& options);

/// Random samples at almost no cost: an input is a window into a fixed pool of noise. A class has its own
/// part of the pool, which bears the class's own faint pattern, so few classes of small inputs can be
/// learned. Without classes the target is a fixed linear function of the first inputs plus 1 % noise.
/// UsageError for shapes without elements.
DatasetPtr make_synthetic(const DatasetOptions& options, Split split);
/// The same of tokens, where `options.seq_len` says that a model wants them.
DatasetPtr make_synthetic_tokens(const DatasetOptions& options, Split split);

/// A data set in one safetensors file, `options.data_dir`: `inputs` (f32, bf16, f16, u8, u16, i32 or i64,
/// given as they are) and `targets` (i64 classes or f32 values), with the samples along their first
/// dimension. Every split is the whole file. Classes must be below `options.num_classes`, which the greatest
/// of them does not set unless the classes are the tokens. Where the model wants tokens, i64 inputs (N, T)
/// are such: below `options.vocab_size` if a user gave it, else the greatest sets it. In place of `inputs`
/// there may be `src` (N, S) and `tgt` (N, T): a row is then source and target behind each other. Targets (N,
/// T) are a class for each token. A class of -100 does not count. Beside them `h0` and `c0`
/// (`InitialStates`), where the model takes such. DataError names the file and what is wrong.
DatasetPtr open_tensors(const DatasetOptions& options);

/// Tensor `inputs`, or `src` and `tgt`, of such a file alone, to be predicted: every target is of `targets`'
/// type and says that there is none; if it is `per_token`, its first extent is the length of these sequences.
/// With a vocabulary in `targets` i64 inputs are tokens; its states are those that the model takes.
DatasetPtr open_inputs(const std::filesystem::path& file, const SampleSpec& targets, bool per_token);

/// Into the target of a sample that has none: -100 (`no_class`); 0 for values.
inline void write_no_target(const SampleSpec& spec, std::span<std::byte> target) {
  std::ranges::fill(target, std::byte{0});
  if (spec.target_dtype != DType::i64) return;
  for (std::size_t at = 0; at < target.size(); at += sizeof no_class)
    std::memcpy(target.data() + at, &no_class, sizeof no_class);
}

}  // namespace lockstep::data
