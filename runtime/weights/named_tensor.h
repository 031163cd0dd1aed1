#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/base/shape.h"
#include "runtime/weights/weights_file.h"

namespace lockstep::runtime {

/// Tensors as files have them: PyTorch's names, shapes and row-major layout.
struct NamedTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;  ///< of an i64 its two words
  DType dtype = DType::f32;
};

/// Tensors of which one at a time is in memory.
struct TensorSource {
  std::vector<NamedTensor> tensors;  ///< names, shapes and types, without values
  std::function<void(std::size_t index, NamedTensor& into)> read;
};

/// FOLDER/model.safetensors, or shards of it (`write_weights`).
void save_weights(const std::filesystem::path& folder, std::span<const NamedTensor> tensors,
                  std::size_t max_shard_bytes, const KeptNames& names = {});
void save_tensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                  const KeptNames& names = {});
void save_tensors(const std::filesystem::path& file, const TensorSource& source, const KeptNames& names = {});

/// The name of the first tensor with an infinity or a NaN; empty if there is none.
std::string first_not_finite(std::span<const NamedTensor> tensors);
std::string first_not_finite(const TensorSource& source);

/// SHA-256 of the tensors' bytes in order: equal on all ranks, or a replica has diverged.
std::string sha256_of(const std::vector<NamedTensor>& tensors);

}  // namespace lockstep::runtime
