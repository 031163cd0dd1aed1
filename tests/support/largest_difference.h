#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "kernels/base/safetensors.h"
#include "tests/support/catch.h"

namespace lockstep::tests {

/// Between the weights that two runs have left.
inline double largest_difference(const std::filesystem::path& a, const std::filesystem::path& b) {
  const SafetensorsFile left(a / "model.safetensors");
  const SafetensorsFile right(b / "model.safetensors");
  double largest = 0;
  for (const auto& tensor : left.tensors()) {
    const auto* other = right.find(tensor.name);
    REQUIRE(other != nullptr);
    REQUIRE(other->bytes.size() == tensor.bytes.size());
    for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
      float x = 0;
      float y = 0;
      std::memcpy(&x, tensor.bytes.data() + at, sizeof(x));
      std::memcpy(&y, other->bytes.data() + at, sizeof(y));
      largest = std::max(largest, static_cast<double>(std::abs(x - y)));
    }
  }
  return largest;
}

}  // namespace lockstep::tests
