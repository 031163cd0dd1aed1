// What libraries in LD_PRELOAD of a run share.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

namespace lockstep::tests {

/// Of an environment variable; empty when it is not set.
inline std::string_view setting(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? std::string_view() : text;
}

inline long number(const char* name) {
  const std::string_view text = setting(name);
  return text.empty() ? 0 : std::atol(text.data());
}

template <class Function>
Function* next(const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// The function of this name behind this library.
#define NEXT(name) lockstep::tests::next(#name, static_cast<decltype(name)*>(nullptr))

}  // namespace lockstep::tests
