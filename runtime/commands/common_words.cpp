// What every program answers: --help and --version.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/version.h"
#include "runtime/commands/commands.h"

namespace lockstep::runtime {

bool asks_for_help(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) { return word == "--help" || word == "-h"; });
}

bool asks_for_version(const std::vector<std::string>& words) {
  return std::ranges::find(words, "--version") != words.end();
}

void print_version() {
  fmt::print("lockstep {} ({})\n", version(), commit());
}

}  // namespace lockstep::runtime
