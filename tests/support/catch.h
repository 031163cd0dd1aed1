#pragma once

#include <string>

// Catch2 2.13 (Debian 12) and 3 (Debian 13) differ in their headers and a few names.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
namespace lockstep::tests {
inline auto contains(const std::string& text) {
  return Catch::Matchers::ContainsSubstring(text);
}
}  // namespace lockstep::tests
#else
#include <catch2/catch.hpp>
namespace lockstep::tests {
inline auto contains(const std::string& text) {
  return Catch::Matchers::Contains(text);
}
}  // namespace lockstep::tests
#endif
