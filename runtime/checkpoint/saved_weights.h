#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "runtime/options/options.h"
#include "runtime/weights/weights_file.h"

namespace lockstep::runtime {

/// Weights that a user named for --init-from, `trainer eval` and `trainer predict`.
struct SavedWeights {
  std::filesystem::path weights;                ///< what a WeightsFile opens
  std::optional<std::filesystem::path> config;  ///< config.ini of the run that made them, if that is known
};

/// `named`: a run's folder (its final weights, or those of its newest whole checkpoint while it has none), a
/// checkpoint's folder, or anything that a WeightsFile opens. DataError names what is missing or damaged, or
/// may not be looked at.
SavedWeights find_saved_weights(const std::filesystem::path& named);

/// What --init-from names. Where that is gone a run that goes on does without: the RUN that the options name,
/// if it holds a run. Empty for neither.
std::filesystem::path first_weights(const Options& options);

/// The tokenizer of the text that these weights were trained on, where they keep no characters of it: that of
/// the run whose config.ini this is, else Hugging Face's files beside `weights`. Empty where neither tells;
/// DataError when the run's is gone.
std::filesystem::path tokenizer_of(const std::filesystem::path& weights,
                                   const std::optional<std::filesystem::path>& config = {});

/// Its tensors by the names that `model` has for them. Those that no run made may have the names of PyTorch's
/// wrappers (`WeightsFile::drop_wrappers`) or of Hugging Face (`use_model_names`).
WeightsFile open_weights(const SavedWeights& saved, const std::string& model);

}  // namespace lockstep::runtime
