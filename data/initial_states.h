#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "kernels/base/safetensors.h"

namespace lockstep::data {

/// Tensors `h0`, and `c0` for models with cells, of a file of samples: the states before each sample's first
/// step, f32 (samples, layers, hidden). Optional; of h0 and c0 all that the model takes, or none.
class InitialStates {
 public:
  /// `wanted`: SampleSpec::states_shape of what the model takes. DataError names the file, the tensor and the
  /// shape that is wanted. Reads from `file` as long as it lives.
  InitialStates(const SafetensorsFile& file, const std::filesystem::path& path, const Shape& wanted,
                std::int64_t samples);

  /// As `wanted`; rank 0 where the file has none.
  const Shape& shape() const { return shape_; }
  /// Those of a sample into `out`: h, and c behind it.
  void copy(std::int64_t index, std::span<std::byte> out) const;

 private:
  std::vector<const SafetensorsFile::Tensor*> kinds_;
  Shape shape_;
};

}  // namespace lockstep::data
