#include "runtime/weights/named_tensor.h"

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

}  // namespace

void save_weights(const std::filesystem::path& folder, std::span<const NamedTensor> tensors,
                  std::size_t max_shard_bytes, const KeptNames& names) {
  write_weights(folder, entries_of(tensors), max_shard_bytes, names);
}

void save_tensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                  const KeptNames& names) {
  write_safetensors(file, entries_of(tensors), weights_metadata(names));
}

std::string first_not_finite(std::span<const NamedTensor> tensors) {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.dtype != DType::f32) continue;
    // A product with 0 is a NaN for what is not finite, and the sum keeps it: one pass, which vectorises.
    float sum = 0;
    for (const float value : tensor.values) sum += value * 0;
    if (std::isnan(sum)) return tensor.name;
  }
  return {};
}

std::string sha256_of(const std::vector<NamedTensor>& tensors) {
  Sha256 hash;
  for (const NamedTensor& tensor : tensors) hash.update(std::as_bytes(std::span(tensor.values)));
  return hash.hex();
}

}  // namespace lockstep::runtime
