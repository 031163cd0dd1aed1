#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The whole text as a decimal number, or nothing: no sign but '-', no blanks, no rest.
template <class Integer>
std::optional<Integer> parse_number(std::string_view text) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The decimal number that the text begins with; 0 without one. For texts that the kernel or Lockstep itself
/// wrote.
template <class Integer>
Integer leading_number(std::string_view text) {
  Integer value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The least and the greatest value of a number that a user types.
template <class Number>
struct Range {
  Number least;
  Number most;
};

/// The whole text as a number in `range`, or a UsageError with the text and what was wanted.
std::int64_t number_in(std::string_view text, Range<std::int64_t> range);
double number_in(std::string_view text, Range<double> range);

/// "3,120-239" of ascending numbers. What does not fit into `most_bytes` is left out, with `rest` in its
/// place.
std::string ranges_of(const std::vector<int>& numbers, std::size_t most_bytes,
                      std::string_view separator = ",", std::string_view rest = "");

}  // namespace lockstep
