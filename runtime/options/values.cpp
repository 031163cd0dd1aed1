#include "runtime/options/values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/number.h"
#include "kernels/base/typed_words.h"

namespace lockstep::runtime {
namespace {

std::vector<std::string> split(const std::string& text, std::string_view separators) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && separators.find(text[at]) == std::string_view::npos) continue;
    parts.push_back(text.substr(start, at - start));
    start = at + 1;
  }
  return parts;
}

}  // namespace

std::string trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(blanks) - first + 1));
}

bool parse_switch(const std::string& text) {
  if (text == "true" || text == "1" || text == "on" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "off" || text == "no") return false;
  throw UsageError(fmt::format("'{}' is neither true nor false", text));
}

Shape parse_shape(const std::string& text) {
  std::vector<std::int64_t> extents;
  constexpr Range<std::int64_t> extent{1, std::numeric_limits<std::int32_t>::max()};
  for (const std::string& part : split(text, "xX,")) extents.push_back(number_in(part, extent));
  if (extents.size() > 4) throw UsageError(fmt::format("'{}' has more than four dimensions", text));
  Shape shape(std::move(extents));
  bytes_of(DType::f32, shape);  // refuses one that is too large
  return shape;
}

model::ModelArgs parse_model_args(const std::string& text) {
  model::ModelArgs args;
  if (text.empty()) return args;
  for (const std::string& pair : split(text, ",")) {
    const std::size_t equals = pair.find('=');
    const std::string key = trimmed(pair.substr(0, equals));
    if (equals == std::string::npos || key.empty())
      throw UsageError(fmt::format("'{}' is not key=value", pair));
    args[key] = trimmed(pair.substr(equals + 1));
  }
  return args;
}

std::pair<double, double> parse_betas(const std::string& text) {
  const bool by_comma = text.find(',') != std::string::npos;
  std::vector<std::string> parts = split(text, by_comma ? "," : " ");
  if (!by_comma) std::erase(parts, "");
  if (parts.size() != 2) throw UsageError(fmt::format("'{}' is not two numbers, such as 0.9,0.999", text));
  const Range<double> below_one{0, std::nextafter(1.0, 0.0)};
  return {number_in(trimmed(parts[0]), below_one), number_in(trimmed(parts[1]), below_one)};
}

std::pair<int, int> parse_port_range(const std::string& text) {
  const std::vector<std::string> parts = split(text, "-");
  if (parts.size() != 2) throw UsageError(fmt::format("'{}' is not two ports with a dash", text));
  constexpr std::int64_t last_port = 65535;
  const std::int64_t first = number_in(parts[0], Range<std::int64_t>{1, last_port});
  const std::int64_t last = number_in(parts[1], Range<std::int64_t>{first, last_port});
  return {static_cast<int>(first), static_cast<int>(last)};
}

std::string parse_choice(const std::string& text, const std::vector<std::string>& choices) {
  if (auto choice = same_name(text, choices)) return *choice;
  throw UsageError(unknown_name("value", text, choices));
}

std::int64_t parse_bytes(const std::string& text) {
  const std::size_t unit_at = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string unit = text.substr(unit_at);
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 7> units{{{"", 1},
                                                                            {"KB", 1'000},
                                                                            {"MB", 1'000'000},
                                                                            {"GB", 1'000'000'000},
                                                                            {"KiB", 1 << 10},
                                                                            {"MiB", 1 << 20},
                                                                            {"GiB", 1 << 30}}};
  const auto found = std::ranges::find(units, unit, &std::pair<std::string_view, std::int64_t>::first);
  if (found == units.end()) {
    throw UsageError(fmt::format(
        "'{}': a size is a whole number of bytes, or one with KB, MB, GB, KiB, MiB or GiB", text));
  }
  return number_in(text.substr(0, unit_at), Range<std::int64_t>{1, most_bytes / found->second}) *
         found->second;
}

std::string show_real(double value) {
  return fmt::format("{}", value);
}

std::string show_model_args(const model::ModelArgs& args) {
  std::string text;
  for (const auto& [key, value] : args) text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value);
  return text;
}

}  // namespace lockstep::runtime
