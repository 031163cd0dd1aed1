#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/safetensors.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::parity {

/// One case of a golden of models run through the product: `trainer` with the formula's weights and batch.
class ModelRun {
 public:
  explicit ModelRun(const nlohmann::json& golden);

  /// On the device under test, with one thread. Relative paths are those of `at`.
  void train(const std::string& options) const;

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  /// The loss of every step, from log.jsonl.
  std::vector<double> losses() const;
  nlohmann::json summary() const;

 private:
  const nlohmann::json& golden_;
  tests::TemporaryFolder folder_;
};

/// A tensor of f32 that `trainer` wrote; the test fails where it is missing.
std::span<const float> floats_of(const SafetensorsFile& file, const std::string& name);

/// "convnet, batch 8".
std::string title(const nlohmann::json& golden);

}  // namespace lockstep::parity
