#include "model/zoo/zoo.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/nearest.h"

namespace lockstep::model {

const std::vector<ZooEntry>& zoo() {
  static const std::vector<ZooEntry> entries{linear_entry(), mlp_entry(), convnet_entry(), simplecnn_entry()};
  return entries;
}

const ZooEntry& find_model(const std::string& name, const ModelArgs& args) {
  const auto found = std::ranges::find(zoo(), name, &ZooEntry::name);
  if (found == zoo().end()) {
    std::vector<std::string> names;
    for (const ZooEntry& entry : zoo()) names.push_back(entry.name);
    throw UsageError(unknown_name("model", name, names));
  }
  for (const auto& [key, value] : args) {
    if (std::ranges::find(found->arguments, key) != found->arguments.end()) continue;
    if (found->arguments.empty()) {
      throw UsageError(fmt::format("model '{}' takes no arguments, not '{}'", name, key));
    }
    throw UsageError(unknown_name("argument of model '" + name + "'", key, found->arguments));
  }
  return *found;
}

std::int64_t argument(const ModelArgs& args, const std::string& key, std::int64_t otherwise) {
  const auto found = args.find(key);
  if (found == args.end()) return otherwise;
  if (found->second < 1)
    throw UsageError(fmt::format("model argument {}={}: at least 1", key, found->second));
  return found->second;
}

}  // namespace lockstep::model
