#pragma once

#include <string>
#include <vector>

namespace lockstep::runtime {

/// Where an option is named. The config.ini of a run names every option: no user chose it there.
enum class Place { command_line, file, file_of_a_run };

/// An option as typed: our name of it (`words.h`) and its text.
struct TypedSetting {
  std::string name;
  std::string text;
  Place place = Place::command_line;
};
/// In order.
using TypedSettings = std::vector<TypedSetting>;

/// A command line: its options, and the words that belong to none.
struct CommandLine {
  TypedSettings settings;
  std::vector<std::string> operands;
};

/// UsageError for an unknown option (with the nearest) and one without its value.
CommandLine read_command_line(const std::vector<std::string>& arguments);

/// The same of an ini file; errors begin with its name.
TypedSettings read_config_file(const std::string& path);

/// The settings of the files that --config names, then the others, which win: also over what they contradict
/// by another name, as --batch-size does a file's global-batch.
TypedSettings with_files_read(const TypedSettings& typed);

/// As an ini file has it: there a '#' may begin a comment.
std::string config_value(std::string value);

/// Whether a file gives `value` back: as `config_value`, and in one line without blanks at its ends.
bool fits_config_file(const std::string& value);

/// The line above the options of a group in config.ini. By having most of them the file is known again.
std::string group_title(const std::string& group);

}  // namespace lockstep::runtime
