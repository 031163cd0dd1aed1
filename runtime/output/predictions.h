#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/shape.h"

namespace lockstep::runtime {

/// How `trainer predict` names what it saw.
struct PredictionNames {
  std::vector<std::string> classes;  ///< by number; counts for as many classes alone
  std::vector<std::string> files;    ///< of the samples, by index; empty: they are no files
};

/// What a batch gave.
struct PredictedBatch {
  std::span<const std::int64_t> samples;  ///< which these are of the set
  std::int64_t set_size = 0;              ///< of which all may be asked for, or some
  std::span<const float> rows;            ///< the network's output, row-major, in the order of the samples
  std::int64_t columns = 0;               ///< of a row: of all tokens, where each has an output
  std::span<const float> states{};  ///< final ones of a recurrent network, by sample; empty: none are given
};

/// The states behind a sample's last step.
struct FinalStates {
  Shape shape{};  ///< (h, or h and c; layers; hidden); rank 0: there are none
  std::span<const float> values{};
};

/// One line of JSON: "index", "file" where there is one; of a classifier "class", "name", "probability" and
/// "top5", the likeliest five first; else "values". Of a recurrent network "h_n" and "c_n", a list for each
/// layer.
std::string prediction_line(std::int64_t index, std::span<const float> output, bool classes,
                            const PredictionNames& names, const FinalStates& states = {});

/// What the outputs of a sample are.
struct PredictionKind {
  bool classes = true;
  std::int64_t tokens = 0;  ///< which have an output each; 0: the sample has one
  /// The last token of a sample that is no padding: a line shows its classes.
  std::function<std::int64_t(std::int64_t sample)> last_token{};
  Shape states{};  ///< FinalStates::shape of a sample
  /// data::Dataset::place_of, where samples are no files.
  std::function<std::int64_t(std::int64_t sample)> place{};
};

/// What `trainer predict` gives: a line for each sample on standard output or, if a file is named, tensor
/// `logits` (samples, columns) f32, or (samples, tokens, classes), in it, and final states as `h_n` and `c_n`
/// (samples, layers, hidden), which is how a data set has them to begin with; where these are not all samples
/// of the set, or others lay between them, `index` (samples) i64 tells which.
class PredictionOutput {
 public:
  PredictionOutput(PredictionNames names, PredictionKind kind, std::filesystem::path file)
      : names_(std::move(names)), kind_(std::move(kind)), file_(std::move(file)) {}

  /// The next samples. Those that were not read have no line, and NaN as logits.
  void take(const PredictedBatch& batch, std::span<const std::int64_t> unreadable);
  /// Writes the file, if there is one.
  void finish() const;

 private:
  std::span<const float> shown(std::span<const float> outputs, std::int64_t sample) const;
  std::int64_t place_of(std::int64_t sample) const;
  void keep_states(const FinalStates& states);

  const PredictionNames names_;
  const PredictionKind kind_;
  const std::filesystem::path file_;
  std::vector<float> logits_;               ///< for the file, as the next two
  std::vector<std::vector<float>> states_;  ///< h, or h and c
  std::vector<std::int64_t> places_;
  std::int64_t set_size_ = 0;
  std::int64_t columns_ = 1;
};

}  // namespace lockstep::runtime
