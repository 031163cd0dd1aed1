#pragma once

#include "tests/support/program.h"
#include "tests/support/text.h"

namespace lockstep::launcher {

using tests::count_of;
using tests::stop;
using tests::wait_until_gone;

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
