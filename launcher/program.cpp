#include "launcher/program.h"

#include <unistd.h>

#include <sstream>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code unreadable;
  return fs::is_regular_file(path, unreadable);
}

bool is_executable(const fs::path& path) {
  return is_file(path) && ::access(path.c_str(), X_OK) == 0;
}

/// Why there is no file of this name.
std::string problem_of(const std::string& name) {
  std::error_code error;
  if (fs::status_known(fs::status(name, error))) return "does not exist";
  return fmt::format("cannot be reached: {}; check the folders above it", error.message());
}

fs::path search(const std::string& name, const fs::path& own_folder, const std::string& path,
                bool (*accept)(const fs::path&)) {
  if (accept(own_folder / name)) return own_folder / name;
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (accept(candidate)) return candidate;
  }
  return {};
}

fs::path find_program(const std::string& name, const fs::path& own_folder, const std::string& path) {
  if (name.find('/') == std::string::npos) {
    const fs::path found = search(name, own_folder, path, is_executable);
    if (!found.empty()) return found;
    const std::string hint = is_executable(name) ? fmt::format("; did you mean './{}'?", name) : "";
    throw UsageError(fmt::format("program '{}' is neither beside launch nor in PATH{}", name, hint));
  }
  std::error_code unreadable;
  if (fs::is_directory(name, unreadable))
    throw UsageError(fmt::format("'{}' is a folder, not a program", name));
  if (!is_file(name)) throw UsageError(fmt::format("program '{}' {}", name, problem_of(name)));
  if (!is_executable(name)) throw UsageError(fmt::format("'{0}' is not executable: chmod +x '{0}'", name));
  return name;
}

fs::path find_script(const std::string& name, const fs::path& own_folder, const std::string& path) {
  if (is_file(name)) return name;
  const fs::path found =
      name.find('/') == std::string::npos ? search(name, own_folder, path, is_file) : fs::path();
  if (found.empty()) throw UsageError(fmt::format("script '{}' {}", name, problem_of(name)));
  return found;
}

}  // namespace

Command find_command(const Options& options, const fs::path& own_folder, const std::string& path) {
  const std::string& name = options.command.front();
  const bool script = !options.module && !options.no_python && name.ends_with(".py");
  Command command;
  if (options.module || script) {
    const std::string target = script ? find_script(name, own_folder, path).string() : name;
    command.program = find_program("python3", own_folder, path);
    command.arguments = {"python3", "-u"};
    if (options.module) command.arguments.emplace_back("-m");
    command.arguments.push_back(target);
  } else {
    command.program = find_program(name, own_folder, path);
    command.arguments = {name};
  }
  command.arguments.insert(command.arguments.end(), options.command.begin() + 1, options.command.end());
  return command;
}

}  // namespace lockstep::launcher
