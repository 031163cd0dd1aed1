#include <fmt/format.h>

#include "data/datasets.h"
#include "runtime/commands/commands.h"

namespace lockstep::runtime {

int models_command(const std::vector<std::string>& arguments) {
  parse_options(arguments);
  for (const model::ZooEntry& entry : model::zoo()) fmt::print("{:<12} {}\n", entry.name, entry.what);
  return 0;
}

int datasets_command(const std::vector<std::string>& arguments) {
  parse_options(arguments);
  for (const data::DatasetInfo& info : data::list_datasets()) fmt::print("{:<14} {}\n", info.name, info.what);
  return 0;
}

}  // namespace lockstep::runtime
