#include "kernels/base/number.h"

#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep {
namespace {

template <class Number>
Number parse_in(std::string_view text, Range<Number> range, std::string_view wanted) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool is_number = stop == end && error != std::errc::invalid_argument &&
                         !std::isnan(static_cast<double>(value)) && !std::isinf(static_cast<double>(value));
  if (!is_number) throw UsageError(fmt::format("'{}' is not a {}", text, wanted));
  if (error == std::errc::result_out_of_range || value < range.least || value > range.most) {
    throw UsageError(fmt::format("{} is not in the range {} to {}", text, range.least, range.most));
  }
  return value;
}

}  // namespace

std::int64_t number_in(std::string_view text, Range<std::int64_t> range) {
  return parse_in(text, range, "whole number");
}

double number_in(std::string_view text, Range<double> range) {
  return parse_in(text, range, "number");
}

std::string ranges_of(const std::vector<int>& numbers, std::size_t most_bytes, std::string_view separator,
                      std::string_view rest) {
  std::string text;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto end = std::next(first);
    while (end != numbers.end() && *end == *std::prev(end) + 1) ++end;
    std::string range(text.empty() ? "" : separator);
    range += std::to_string(*first);
    if (std::next(first) != end) range += fmt::format("-{}", *std::prev(end));
    if (text.size() + range.size() > most_bytes) return text.append(rest);
    text += range;
    first = end;
  }
  return text;
}

}  // namespace lockstep
