#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace lockstep {

/// The whole text as a decimal number, or nothing: no sign but '-', no blanks, no rest.
template <class Integer>
std::optional<Integer> parse_number(std::string_view text) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace lockstep
