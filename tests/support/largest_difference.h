#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "kernels/base/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/largest_error.h"

namespace lockstep::tests {

/// The numbers of a tensor of f32.
inline std::vector<float> as_floats(const SafetensorsFile::Tensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

/// Between the weights that two runs have left; counts must be equal.
inline double largest_difference(const std::filesystem::path& a, const std::filesystem::path& b) {
  const SafetensorsFile left(a / "model.safetensors");
  const SafetensorsFile right(b / "model.safetensors");
  REQUIRE(left.tensors().size() == right.tensors().size());
  double largest = 0;
  for (const auto& tensor : left.tensors()) {
    INFO(tensor.name);
    const auto* other = right.find(tensor.name);
    REQUIRE(other != nullptr);
    REQUIRE(other->dtype == tensor.dtype);
    if (tensor.dtype == DType::f32) {
      largest = std::max(largest, largest_error(as_floats(tensor), as_floats(*other)));
    } else {
      CHECK(std::ranges::equal(tensor.bytes, other->bytes));
    }
  }
  return largest;
}

}  // namespace lockstep::tests
