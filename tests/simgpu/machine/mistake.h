#pragma once

#include <string>
#include <string_view>

namespace simgpu {

void print_mistake(std::string_view kind, const std::string& text);

/// Prints and ends the process with code 86, whatever handler a test installed: for places that must not
/// throw (a signal handler, the end of the process).
[[noreturn]] void end_after_mistake(std::string_view kind, const std::string& text);

}  // namespace simgpu
