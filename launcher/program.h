#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/options.h"

namespace lockstep::launcher {

/// What a worker executes.
struct Command {
  std::filesystem::path program;
  std::vector<std::string> arguments;  ///< argv, from argv[0] on
};

/// Finds the program of `options.command`: a name without a slash beside launch (`own_folder`), then in
/// `path` (PATH's text); a .py file in the current folder first, and run by `python3 -u`. UsageError when
/// there is none or it cannot be executed.
Command find_command(const Options& options, const std::filesystem::path& own_folder,
                     const std::string& path);

}  // namespace lockstep::launcher
