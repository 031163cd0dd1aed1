#include "runtime/weights/named_tensor.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/hash.h"
#include "runtime/weights/weights_file.h"
#include "runtime/weights/write_weights.h"

namespace lockstep::runtime {
namespace {

std::vector<SafetensorsFile::Tensor> entries_of(std::span<const NamedTensor> tensors) {
  std::vector<SafetensorsFile::Tensor> entries;
  for (const NamedTensor& tensor : tensors) {
    entries.push_back({.name = tensor.name,
                       .dtype = tensor.dtype,
                       .shape = tensor.shape,
                       .bytes = std::as_bytes(std::span(tensor.values))});
  }
  return entries;
}

bool is_finite(const NamedTensor& tensor) {
  if (tensor.dtype != DType::f32) return true;
  // A product with 0 is a NaN for what is not finite, and the sum keeps it: one pass, which vectorises.
  float sum = 0;
  for (const float value : tensor.values) sum += value * 0;
  return !std::isnan(sum);
}

}  // namespace

void save_weights(const std::filesystem::path& folder, std::span<const NamedTensor> tensors,
                  std::size_t max_shard_bytes, const KeptNames& names) {
  write_weights(folder, entries_of(tensors), max_shard_bytes, names);
}

void save_tensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                  const KeptNames& names) {
  write_safetensors(file, entries_of(tensors), weights_metadata(names));
}

void save_tensors(const std::filesystem::path& file, const TensorSource& source, const KeptNames& names) {
  NamedTensor tensor;
  const auto bytes_of = [&](std::size_t index) {
    source.read(index, tensor);
    return std::as_bytes(std::span(tensor.values));
  };
  stream_safetensors(file, entries_of(source.tensors), bytes_of, weights_metadata(names));
}

std::string first_not_finite(std::span<const NamedTensor> tensors) {
  const auto found = std::ranges::find_if_not(tensors, is_finite);
  return found == tensors.end() ? std::string() : found->name;
}

std::string first_not_finite(const TensorSource& source) {
  NamedTensor tensor;
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    source.read(i, tensor);
    if (!is_finite(tensor)) return tensor.name;
  }
  return {};
}

std::string sha256_of(const std::vector<NamedTensor>& tensors) {
  Sha256 hash;
  for (const NamedTensor& tensor : tensors) hash.update(std::as_bytes(std::span(tensor.values)));
  return hash.hex();
}

}  // namespace lockstep::runtime
