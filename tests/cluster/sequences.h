#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/safetensors.h"
#include "tests/support/json_lines.h"

namespace lockstep::tests {

inline constexpr std::int64_t vocabulary = 24;
inline constexpr std::int64_t padding = -1;
inline constexpr std::int64_t ignored = -100;

inline const Words of_tokens{"--plugin=" TOKENS_PLUGIN, "--threads=1", "--seed=7", "--log-every=1"};

inline SafetensorsFile::Tensor tensor(const char* name, const Shape& shape,
                                      const std::vector<std::int64_t>& values) {
  return {name, DType::i64, shape, std::as_bytes(std::span(values))};
}

inline std::string file_of(const TemporaryFolder& folder, const char* name,
                           const std::vector<SafetensorsFile::Tensor>& tensors) {
  const std::string path = (folder / name).string();
  write_safetensors(path, tensors);
  return path;
}

inline Words data_in(const std::string& file) {
  return {"--dataset=tensors", "--data-dir=" + file};
}

inline std::vector<double> losses_of(const std::filesystem::path& run) {
  std::vector<double> losses;
  for (const auto& line : lines_of(contents(run / "log.jsonl"))) {
    if (line.contains("step") && line.contains("lr")) losses.push_back(line["loss"]);
  }
  return losses;
}

}  // namespace lockstep::tests
