#pragma once

#include <filesystem>
#include <optional>

namespace lockstep::runtime {

/// Weights that a user named for --init-from, `trainer eval` and `trainer predict`.
struct SavedWeights {
  std::filesystem::path weights;                ///< what a WeightsFile opens
  std::optional<std::filesystem::path> config;  ///< config.ini of the run that made them, if that is known
};

/// `named`: a run's folder (its final weights, or those of its newest whole checkpoint while it has none), a
/// checkpoint's folder, or anything that a WeightsFile opens. DataError names what is missing or damaged.
SavedWeights find_saved_weights(const std::filesystem::path& named);

}  // namespace lockstep::runtime
