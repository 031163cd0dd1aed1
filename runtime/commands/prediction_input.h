#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/pictures/picture_files.h"
#include "runtime/machine/session.h"
#include "runtime/options/options.h"
#include "runtime/output/predictions.h"
#include "runtime/weights/weights_file.h"

namespace lockstep::runtime {

/// What `trainer predict` looks at.
struct PredictionInput {
  data::DatasetPtr samples;
  std::shared_ptr<const data::PictureFiles> pictures;  ///< the same, if these are picture files
  PredictionNames names;
};

/// The pictures that `operands` name, else the file of tensors that --data-dir names, else the test set of
/// the run. Each rank for itself; all must find the same pictures.
PredictionInput open_prediction_input(const CommandOptions& told, std::span<const std::string> operands,
                                      const WeightsFile& weights, Session& session);

/// Whether these are of a file of tensors: recurrent models then return states, as such a file may bring
/// them.
bool samples_are_tensors(const CommandOptions& told, std::span<const std::string> operands);

/// Collective: the pictures that a rank could not read so far, by index.
std::vector<std::int64_t> unreadable_pictures(const PredictionInput& input, Session& session);

}  // namespace lockstep::runtime
