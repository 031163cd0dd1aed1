#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/base/shape.h"

namespace lockstep::parity {

struct NamedTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

/// The parameters of a case of goldens/models.json or vision.json, by PyTorch's names.
std::vector<NamedTensor> formula_weights(const nlohmann::json& model_case);

/// The same as a safetensors file, for `--init-from`, with the buffers of normalisations as they start.
void write_formula_weights(const std::filesystem::path& path, const nlohmann::json& model_case);

/// The case's batch as a safetensors file with `inputs` (or `src` and `tgt`) and `targets`, for `--dataset
/// tensors --data-dir`.
void write_formula_batch(const std::filesystem::path& path, const nlohmann::json& model_case);

}  // namespace lockstep::parity
