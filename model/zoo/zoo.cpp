#include "model/zoo/zoo.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/nearest.h"

namespace lockstep::model {

const std::vector<ZooEntry>& zoo() {
  static const std::vector<ZooEntry> entries{linear_entry(), mlp_entry(), convnet_entry(), simplecnn_entry()};
  return entries;
}

const ZooEntry& find_model(std::span<const ZooEntry> models, const std::string& name, const ModelArgs& args) {
  const auto found = std::ranges::find(models, name, &ZooEntry::name);
  if (found == models.end()) {
    std::vector<std::string> names;
    for (const ZooEntry& entry : models) names.push_back(entry.name);
    throw UsageError(unknown_name("model", name, names));
  }
  check_arguments(name, found->arguments, args);
  return *found;
}

const ZooEntry& find_model(const std::string& name, const ModelArgs& args) {
  return find_model(zoo(), name, args);
}

}  // namespace lockstep::model
