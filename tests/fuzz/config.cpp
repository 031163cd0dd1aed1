// config.ini, and words of the command line in lines.
#include <sstream>

#include "kernels/base/error.h"
#include "runtime/options/options.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;
using namespace lockstep::tests;

namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes = text_of(data + 1, size - 1);
  const auto words = data[0] % 2 == 1 ? lines_of(bytes)
                                      : std::vector<std::string>{"--config", input_file("config.ini", bytes)};
  std::string ini;
  try {
    ini = runtime::to_ini(runtime::parse_options(words));
  } catch (const UsageError&) {
    return 0;
  }
  // What was understood is written so that it is understood again.
  static_cast<void>(runtime::parse_options({"--config", input_file("again.ini", ini)}));
  return 0;
}
