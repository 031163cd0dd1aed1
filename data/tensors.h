#pragma once

#include <filesystem>

#include "data/dataset.h"

namespace lockstep::data {

/// A data set in one safetensors file: `inputs` (f32, bf16, f16, u8, u16, i32 or i64, given as they are) and
/// `targets` (i64 classes or f32 values), with the samples along their first dimension. Every split is the
/// whole file. DataError names the file and what is wrong.
DatasetPtr open_tensors(const std::filesystem::path& file);

}  // namespace lockstep::data
