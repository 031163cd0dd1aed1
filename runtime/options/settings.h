#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::runtime {

/// Options as typed, in order: our name of each (`words.h`) and its text.
using TypedSettings = std::vector<std::pair<std::string, std::string>>;

/// A command line: its options, and the words that belong to none.
struct CommandLine {
  TypedSettings settings;
  std::vector<std::string> operands;
};

/// UsageError for an unknown option (with the nearest) and one without its value.
CommandLine read_command_line(const std::vector<std::string>& arguments);

/// The same of an ini file; errors begin with its name.
TypedSettings read_config_file(const std::string& path);

/// The settings of the files that --config names, then the others, which win.
TypedSettings with_files_read(const TypedSettings& typed);

/// As an ini file has it: there a '#' may begin a comment.
std::string config_value(std::string value);

}  // namespace lockstep::runtime
