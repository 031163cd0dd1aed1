#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/output/console.h"

namespace lockstep::runtime {

/// How `trainer predict` names what it saw.
struct PredictionNames {
  std::vector<std::string> classes;  ///< by number; counts for as many classes alone
  std::vector<std::string> files;    ///< of the samples, by index; empty: they are no files
};

/// One line of JSON: "index", "file" where there is one; of a classifier "class", "name", "probability" and
/// "top5", the likeliest five first; else "values".
std::string prediction_line(std::int64_t index, std::span<const float> output, bool classes,
                            const PredictionNames& names);

/// What `trainer predict` gives: a line for each sample on standard output or, if a file is named, tensor
/// `logits` (samples, columns) f32 in it.
class PredictionOutput {
 public:
  PredictionOutput(PredictionNames names, bool classes, std::filesystem::path file)
      : names_(std::move(names)), classes_(classes), file_(std::move(file)) {}

  /// The next `rows`, of `columns` each. Samples that were not read have no line, and NaN as logits.
  void take(std::span<const float> rows, std::int64_t columns, std::span<const std::int64_t> unreadable);
  /// Writes the file, if there is one.
  void finish() const;

 private:
  const PredictionNames names_;
  const bool classes_;
  const std::filesystem::path file_;
  Console console_{Console::Style::plain, 0};
  std::vector<float> logits_;  ///< for the file
  std::int64_t columns_ = 1;
  std::int64_t next_ = 0;  ///< index of a sample
};

}  // namespace lockstep::runtime
