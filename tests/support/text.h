#pragma once

#include <string_view>

namespace lockstep::tests {

/// How often `part` stands in `text`.
inline int count_of(std::string_view text, std::string_view part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace lockstep::tests
