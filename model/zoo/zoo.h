#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/zoo/arguments.h"

namespace lockstep::model {

/// A model by name. `wants` is what it takes from a data set that can have any shape. Arguments are those
/// that `find_model` has checked.
struct ZooEntry {
  std::string name;
  std::string what;  ///< one line for `trainer models`
  std::vector<Argument> arguments;
  InputSpec (*wants)(const ModelArgs&);
  Model (*make)(const ModelArgs&, const InputSpec&);
};

const std::vector<ZooEntry>& zoo();

/// UsageError with the nearest name, and for arguments that the model did not declare so.
const ZooEntry& find_model(std::span<const ZooEntry> models, const std::string& name, const ModelArgs& args);
/// Of the zoo.
const ZooEntry& find_model(const std::string& name, const ModelArgs& args);

ZooEntry linear_entry();
ZooEntry mlp_entry();
ZooEntry convnet_entry();
ZooEntry simplecnn_entry();

}  // namespace lockstep::model
