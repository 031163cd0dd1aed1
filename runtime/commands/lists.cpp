#include <fmt/format.h>

#include "runtime/commands/commands.h"
#include "runtime/plugin/load_plugins.h"

namespace lockstep::runtime {

int models_command(const std::vector<std::string>& arguments) {
  const Plugins plugins = load_plugins(parse_options(arguments).plugins);
  for (const model::ZooEntry& entry : plugins.registry.models())
    fmt::print("{:<12} {}\n", entry.name, entry.what);
  return 0;
}

int datasets_command(const std::vector<std::string>& arguments) {
  const Plugins plugins = load_plugins(parse_options(arguments).plugins);
  for (const data::DatasetEntry& entry : plugins.registry.datasets()) {
    fmt::print("{:<14} {}\n", entry.name, entry.what);
  }
  return 0;
}

}  // namespace lockstep::runtime
