#include "runtime/commands/own_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/typed_words.h"

namespace lockstep::runtime {

namespace po = boost::program_options;

po::variables_map parse_own_options(const std::vector<std::string>& arguments,
                                    const po::options_description& options, std::string_view usage) {
  std::vector<std::string> words = arguments;
  for (std::string& word : words) {
    if (!word.starts_with("--")) continue;
    const std::size_t name = std::min(word.find('='), word.size());
    word = with_dashes(word.substr(0, name)) + word.substr(name);
  }
  constexpr int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::variables_map given;
  try {
    const po::parsed_options parsed = po::command_line_parser(words).options(options).style(style).run();
    for (const auto& option : parsed.options) {
      if (option.string_key.empty())
        throw UsageError(fmt::format("'{}' belongs to no option; {}", option.value.front(), usage));
    }
    po::store(parsed, given);
    po::notify(given);
  } catch (const po::error& error) {
    throw UsageError(fmt::format("{}; {}", error.what(), usage));
  }
  return given;
}

}  // namespace lockstep::runtime
