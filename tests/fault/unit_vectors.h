// A data set and a model whose weights tell which samples were in a step of which size.
#pragma once

#include <cmath>
#include <cstring>
#include <map>

#include "kernels/base/safetensors.h"
#include "tests/support/training.h"

namespace lockstep::tests {

inline constexpr std::int64_t unit_vector_count = 50;
inline constexpr float unit_vector_target = 1000;
inline constexpr double unit_vector_rate = 1e-6;

/// Sample i is the i-th unit vector with one target for all, and the model y = w x + b begins at 0. So a step
/// of n samples moves the weight of each by 2 rate target / n, but for terms of the size of the rate, and no
/// other weight.
inline void write_unit_vectors(const std::filesystem::path& folder) {
  constexpr std::int64_t count = unit_vector_count;
  const auto tensor = [](const char* name, Shape shape, const std::vector<float>& values) {
    return SafetensorsFile::Tensor{.name = name,
                                   .dtype = DType::f32,
                                   .shape = std::move(shape),
                                   .bytes = std::as_bytes(std::span(values))};
  };
  std::vector<float> units(count * count, 0.0F);
  for (std::size_t i = 0; i < count; ++i) units[i * count + i] = 1;
  const std::vector<float> targets(count, unit_vector_target);
  write_safetensors(folder / "data.safetensors", std::vector{tensor("inputs", {count, count}, units),
                                                             tensor("targets", {count, 1}, targets)});
  const std::vector<float> weight(count, 0.0F);
  const std::vector<float> bias{0};
  write_safetensors(folder / "zeros.safetensors",
                    std::vector{tensor("weight", {1, count}, weight), tensor("bias", {1}, bias)});
}

inline Words unit_vector_options(const std::filesystem::path& folder) {
  return {"--model=linear",
          "--dataset=tensors",
          "--data-dir=" + (folder / "data.safetensors").string(),
          "--init-from=" + (folder / "zeros.safetensors").string(),
          "--optimizer=sgd",
          "--lr=1e-6",
          "--eval-every=0",
          "--threads=1",
          "--checkpoint-every=1"};
}

/// How many samples were in a step of so many; each weight must have moved in one step only.
inline std::map<int, int> samples_by_step_size(const std::filesystem::path& run) {
  const SafetensorsFile file(run / "model.safetensors");
  const auto* weights = file.find("weight");
  REQUIRE(weights != nullptr);
  std::map<int, int> counts;
  for (std::size_t i = 0; i < unit_vector_count; ++i) {
    float weight = 0;
    std::memcpy(&weight, weights->bytes.data() + i * sizeof(float), sizeof(float));
    REQUIRE(weight > 0);  // 0: sample i was never seen
    const double moved_by_one = 2 * unit_vector_rate * static_cast<double>(unit_vector_target);
    ++counts[static_cast<int>(std::lround(moved_by_one / static_cast<double>(weight)))];
  }
  return counts;
}

}  // namespace lockstep::tests
