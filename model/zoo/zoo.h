#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/model.h"

namespace lockstep::model {

/// `--model-args k=v,...`.
using ModelArgs = std::map<std::string, std::int64_t>;

/// A model by name. `wants` is what it takes from a data set that can have any shape.
struct ZooEntry {
  std::string name;
  std::string what;                    ///< one line for `trainer models`
  std::vector<std::string> arguments;  ///< keys it knows
  InputSpec (*wants)(const ModelArgs&);
  Model (*make)(const ModelArgs&, const InputSpec&);
};

const std::vector<ZooEntry>& zoo();

/// UsageError with the nearest name, and for an argument that the model does not know.
const ZooEntry& find_model(const std::string& name, const ModelArgs& args);

/// args[key], or `otherwise`. UsageError below 1.
std::int64_t argument(const ModelArgs& args, const std::string& key, std::int64_t otherwise);

ZooEntry linear_entry();
ZooEntry mlp_entry();
ZooEntry convnet_entry();
ZooEntry simplecnn_entry();

}  // namespace lockstep::model
