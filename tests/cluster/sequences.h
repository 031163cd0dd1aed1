#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/philox.h"
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

/// Rows of 1 to 300 tokens and padding, with a class for each token and with one for each row.
struct PaddedFiles {
  std::string per_token;
  std::string per_row;
};

inline PaddedFiles padded_files(const TemporaryFolder& folder) {
  constexpr std::int64_t rows = 240;
  constexpr std::int64_t longest = 300;
  std::vector<std::int64_t> tokens(rows * longest, padding);
  std::vector<std::int64_t> targets(rows * longest, ignored);
  std::vector<std::int64_t> classes(rows);
  const Philox random(3, 4);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t end = 1 + row * row * 31 % longest;
    for (std::int64_t i = row * longest; i < row * longest + end; ++i) {
      tokens[static_cast<std::size_t>(i)] = random.below(vocabulary, static_cast<std::uint64_t>(i));
      targets[static_cast<std::size_t>(i)] = (tokens[static_cast<std::size_t>(i)] * 5 + 1) % vocabulary;
    }
    classes[static_cast<std::size_t>(row)] = row % 6;
  }
  const auto inputs = tensor("inputs", {rows, longest}, tokens);
  return {.per_token =
              file_of(folder, "tokens.safetensors", {inputs, tensor("targets", {rows, longest}, targets)}),
          .per_row = file_of(folder, "rows.safetensors", {inputs, tensor("targets", {rows}, classes)})};
}

}  // namespace lockstep::tests
