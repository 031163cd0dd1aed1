#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::runtime {

/// A kind of something, with the name that users type for it. Tables of them name each kind once.
template <class Kind>
using NamedKind = std::pair<Kind, std::string_view>;

template <class Kind, std::size_t count>
std::vector<std::string> names_in(const NamedKind<Kind> (&kinds)[count]) {
  std::vector<std::string> names;
  for (const NamedKind<Kind>& row : kinds) names.emplace_back(row.second);
  return names;
}

/// `name` is one of `names_in`.
template <class Kind, std::size_t count>
Kind kind_called(const std::string& name, const NamedKind<Kind> (&kinds)[count]) {
  return std::ranges::find_if(kinds, [&](const auto& row) { return row.second == name; })->first;
}

template <class Kind, std::size_t count>
std::string name_in(const NamedKind<Kind> (&kinds)[count], Kind kind) {
  return std::string(std::ranges::find_if(kinds, [=](const auto& row) { return row.first == kind; })->second);
}

}  // namespace lockstep::runtime
