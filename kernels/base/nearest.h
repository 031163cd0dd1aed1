#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// "unknown <kind> '<given>', did you mean '<nearest>'?" by edit distance, or, when nothing is near, the list
/// of all names: "unknown <kind> '<given>'; there are: a, b, c".
std::string unknown_name(std::string_view kind, std::string_view given, std::span<const std::string> names);

}  // namespace lockstep
