#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "kernels/base/export.h"
#include "kernels/base/number.h"

namespace lockstep::model {

/// `--model-args k=v,...`, as typed.
using ModelArgs = std::map<std::string, std::string>;

/// What a model lets a user choose. `of` gives the typed value or, where none was typed, the default;
/// UsageError names key, value and what was wanted.
struct LOCKSTEP_API IntegerArgument {
  std::string key;
  std::int64_t otherwise;
  Range<std::int64_t> range;
  std::int64_t of(const ModelArgs& args) const;
};

struct LOCKSTEP_API RealArgument {
  std::string key;
  double otherwise;
  Range<double> range;
  double of(const ModelArgs& args) const;
};

struct LOCKSTEP_API ChoiceArgument {
  std::string key;
  std::vector<std::string> choices;  ///< the first is the default
  std::string of(const ModelArgs& args) const;
};

struct LOCKSTEP_API SwitchArgument {
  std::string key;
  bool otherwise;
  bool of(const ModelArgs& args) const;
};

using Argument = std::variant<IntegerArgument, RealArgument, ChoiceArgument, SwitchArgument>;

/// Layers have at most so many features.
inline constexpr Range<std::int64_t> feature_counts{1, std::int64_t{1} << 24};

/// Of every classifier: `num_classes`, which is `otherwise` unless the data set has a list of its classes.
LOCKSTEP_API IntegerArgument class_count(std::int64_t otherwise);

/// A kind with its range or choices and the default, for `trainer models`: "dropout=0.2 (a number, 0 to 1)".
std::string describe(const Argument& argument);

/// UsageError, with the model's name, for a key that is not declared and for a value that is not what its
/// declaration wants.
void check_arguments(const std::string& model, const std::vector<Argument>& declared, const ModelArgs& args);

}  // namespace lockstep::model
