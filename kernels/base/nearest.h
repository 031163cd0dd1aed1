#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// `name` in lower case, without '-' and '_': names that differ only in these are the same.
std::string folded(std::string_view name);

/// The one of `names` that is `given` when folded.
std::optional<std::string> same_name(std::string_view given, std::span<const std::string> names);

/// "unknown <kind> '<given>', did you mean 'a', 'b' or 'c'?": the nearest names, at most three; when none is
/// near, "unknown <kind> '<given>'; there are: a, b, c".
std::string unknown_name(std::string_view kind, std::string_view given, std::span<const std::string> names);

/// The same for long lists: `list`, such as "`trainer models` lists them", stands for the names.
std::string unknown_name(std::string_view kind, std::string_view given, std::span<const std::string> names,
                         std::string_view list);

}  // namespace lockstep
