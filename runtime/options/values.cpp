#include "runtime/options/values.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/nearest.h"

namespace lockstep::runtime {
namespace {

template <class Number>
bool parse_whole(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] != separator) continue;
    parts.push_back(text.substr(start, at - start));
    start = at + 1;
  }
  return parts;
}

}  // namespace

std::int64_t parse_integer(const std::string& text, std::int64_t least) {
  std::int64_t number = 0;
  if (!parse_whole(text, number)) throw UsageError(fmt::format("'{}' is not a whole number", text));
  if (number < least) throw UsageError(fmt::format("{} is too small, at least {}", number, least));
  return number;
}

double parse_real(const std::string& text, double least) {
  double number = 0;
  if (!parse_whole(text, number) || !std::isfinite(number)) {
    throw UsageError(fmt::format("'{}' is not a number", text));
  }
  if (number < least) throw UsageError(fmt::format("{} is too small, at least {}", text, least));
  return number;
}

bool parse_switch(const std::string& text) {
  if (text == "true" || text == "1" || text == "on" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "off" || text == "no") return false;
  throw UsageError(fmt::format("'{}' is neither true nor false", text));
}

Shape parse_shape(const std::string& text) {
  std::vector<std::int64_t> extents;
  for (const std::string& part : split(text, 'x')) extents.push_back(parse_integer(part, 1));
  if (extents.size() > 4) throw UsageError(fmt::format("'{}' has more than four dimensions", text));
  return Shape(std::move(extents));
}

model::ModelArgs parse_model_args(const std::string& text) {
  model::ModelArgs args;
  if (text.empty()) return args;
  for (const std::string& pair : split(text, ',')) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(fmt::format("'{}' is not key=value", pair));
    args[pair.substr(0, equals)] = parse_integer(pair.substr(equals + 1), 1);
  }
  return args;
}

std::pair<double, double> parse_betas(const std::string& text) {
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() != 2) throw UsageError(fmt::format("'{}' is not two numbers with a comma", text));
  const std::pair betas{parse_real(parts[0], 0), parse_real(parts[1], 0)};
  if (betas.first >= 1 || betas.second >= 1)
    throw UsageError(fmt::format("'{}': both must be below 1", text));
  return betas;
}

std::pair<int, int> parse_port_range(const std::string& text) {
  const std::vector<std::string> parts = split(text, '-');
  if (parts.size() != 2) throw UsageError(fmt::format("'{}' is not two ports with a dash", text));
  const std::int64_t first = parse_integer(parts[0], 1);
  const std::int64_t last = parse_integer(parts[1], first);
  if (last > 65535) throw UsageError(fmt::format("'{}': ports end at 65535", text));
  return {static_cast<int>(first), static_cast<int>(last)};
}

std::string parse_choice(const std::string& text, const std::vector<std::string>& choices) {
  for (const std::string& choice : choices) {
    if (choice == text) return text;
  }
  throw UsageError(unknown_name("value", text, choices));
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
