#pragma once

#include <boost/program_options/variables_map.hpp>

#include <set>
#include <string>
#include <vector>

#include "launcher/options.h"

namespace lockstep::launcher {

/// The words of a command line, sorted but not yet checked for sense.
struct CommandLine {
  boost::program_options::variables_map values;  ///< by long name with dashes; defaults filled in
  std::vector<std::string> command;              ///< PROGRAM and its ARGS
  std::set<std::string> from_environment;        ///< options that PET_<NAME> gave
};

/// A message that begins with an option's name, with that of the variable where that gave the option.
std::string named_as_given(const std::string& message, const std::set<std::string>& from_environment);

/// Our options in front of PROGRAM, then PET_<NAME> variables that are not empty, then defaults. UsageError
/// for an unknown option, with what to type instead (`words.h`, or the nearest ones), or a value of the wrong
/// kind.
CommandLine read_command_line(const std::vector<std::string>& arguments,
                              const comm::Environment& environment);

}  // namespace lockstep::launcher
