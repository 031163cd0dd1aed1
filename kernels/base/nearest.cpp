#include "kernels/base/nearest.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace lockstep {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string unknown_name(std::string_view kind, std::string_view given, std::span<const std::string> names) {
  std::string_view nearest;
  std::size_t least = std::max<std::size_t>(2, given.size() / 3) + 1;
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(given, name);
    if (distance < least) {
      least = distance;
      nearest = name;
    }
  }
  if (!nearest.empty()) return fmt::format("unknown {} '{}', did you mean '{}'?", kind, given, nearest);
  return fmt::format("unknown {} '{}'; there are: {}", kind, given, fmt::join(names, ", "));
}

}  // namespace lockstep
