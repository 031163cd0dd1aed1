#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"
#include "runtime/options/typed_options.h"
#include "runtime/run/task.h"
#include "runtime/weights/weights_file.h"
#include "runtime/weights/write_weights.h"
#include "tests/support/message_of.h"

namespace lockstep::runtime::testing {

using Words = std::vector<std::string>;

inline TrainingTask task_of(const Words& words) {
  return make_task_without_data(parse_options(words));
}

inline std::string refusal(const Words& words) {
  return tests::message_of<UsageError>([&] { task_of(words); });
}

/// Weights of so many classes that keep these names.
inline WeightsFile head_of(const std::filesystem::path& file, std::int64_t classes, const KeptNames& names) {
  const std::vector<float> values(static_cast<std::size_t>(classes));
  const SafetensorsFile::Tensor head{"fc.bias", DType::f32, {classes}, std::as_bytes(std::span(values))};
  write_safetensors(file, std::span(&head, 1), weights_metadata(names));
  return WeightsFile(file);
}

}  // namespace lockstep::runtime::testing
