#pragma once

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kernels/base/safetensors.h"
#include "tests/support/catch.h"

namespace lockstep::tests {

using Gradients = std::map<std::string, std::vector<float>>;

/// What `--dump-gradients` wrote, but for the loss.
inline Gradients gradients_in(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  Gradients all;
  for (const auto& tensor : file.tensors()) {
    if (tensor.name == "loss") continue;
    REQUIRE(tensor.dtype == DType::f32);
    const auto* const values = reinterpret_cast<const float*>(tensor.bytes.data());
    all[tensor.name].assign(values, values + tensor.bytes.size() / sizeof(float));
  }
  return all;
}

inline std::vector<float> joined(const Gradients& gradients) {
  std::vector<float> all;
  for (const auto& [name, values] : gradients) all.insert(all.end(), values.begin(), values.end());
  return all;
}

inline double norm(const std::vector<float>& a) {
  double squares = 0;
  for (const float value : a) squares += std::pow(static_cast<double>(value), 2);
  return std::sqrt(squares);
}

/// The norm of the difference.
inline double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(squares);
}

/// Of the norm of `b`.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  return difference(a, b) / norm(b);
}

}  // namespace lockstep::tests
