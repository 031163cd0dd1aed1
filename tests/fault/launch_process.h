#pragma once

#include "tests/support/program.h"

namespace lockstep::launcher {

using tests::stop;
using tests::wait_until_gone;

inline int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// The real `launch` with these arguments.
class LaunchProcess : public tests::Program {
 public:
  explicit LaunchProcess(std::vector<std::string> arguments, Console console = Console::pipe)
      : Program(with_launch(std::move(arguments)), console) {}

 private:
  static std::vector<std::string> with_launch(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), LAUNCH_PROGRAM);
    return arguments;
  }
};

}  // namespace lockstep::launcher
