#include <fmt/format.h>

#include "runtime/commands/commands.h"
#include "runtime/options/option_readers.h"
#include "runtime/plugin/load_plugins.h"

namespace lockstep::runtime {

int datasets_command(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments.front() == "tokenize")
    return tokenize_command({arguments.begin() + 1, arguments.end()});
  const Plugins plugins = load_plugins(parse_options_for(list_options(), arguments).plugins);
  for (const data::DatasetEntry& entry : plugins.registry.datasets()) {
    fmt::print("{:<14} {}\n", entry.name, entry.what);
    if (entry.transforms && !entry.transforms->train.empty()) {
      fmt::print("{:<14} --transform {} --eval-transform {}\n", "", entry.transforms->train,
                 entry.transforms->eval);
    }
  }
  return 0;
}

}  // namespace lockstep::runtime
