#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::runtime {

/// Options as typed, in order: our name of each (`words.h`) and its text.
using TypedSettings = std::vector<std::pair<std::string, std::string>>;

/// UsageError for an unknown option (with the nearest), one without its value, and a word of no option.
TypedSettings read_command_line(const std::vector<std::string>& arguments);

/// The same of an ini file; errors begin with its name.
TypedSettings read_config_file(const std::string& path);

}  // namespace lockstep::runtime
