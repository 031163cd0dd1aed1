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

/// A data set in one safetensors file: `inputs` (f32, bf16, f16, u8, u16, i32 or i64, given as they are) and
/// `targets` (i64 classes or f32 values), with the samples along their first dimension. Every split is the
/// whole file. Classes must be below `num_classes`, which the greatest of them does not set. DataError names
/// the file and what is wrong.
DatasetPtr open_tensors(const std::filesystem::path& file, std::int64_t num_classes);

/// Tensor `inputs` of such a file alone, to be predicted: every target is of `targets`' type, and says that
/// there is none.
DatasetPtr open_inputs(const std::filesystem::path& file, const SampleSpec& targets);

/// Into the target of a sample that has none: -100, PyTorch's ignore_index; 0 for values.
inline void write_no_target(const SampleSpec& spec, std::span<std::byte> target) {
  constexpr std::int64_t ignored = -100;
  std::ranges::fill(target, std::byte{0});
  if (spec.target_dtype == DType::i64) std::memcpy(target.data(), &ignored, sizeof ignored);
}

}  // namespace lockstep::data
