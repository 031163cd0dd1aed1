#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/base/export.h"
#include "kernels/base/version.h"

namespace lockstep {

/// What a program and a module of it must have in common. Each makes its own, of the same source; a module's
/// table begins with it. Text of a fixed size, so that it can be read from a table of any build.
struct AbiIdentity {
  std::array<char, 56> commit{};
  std::uint64_t hash = 0;  ///< of everything that crosses the border

  LOCKSTEP_API std::string_view commit_name() const;
  bool operator==(const AbiIdentity&) const = default;
};

LOCKSTEP_API AbiIdentity abi_identity(std::string_view commit, std::string_view border);

/// This build's, for a module whose border `border` describes. Inline and hidden: the commit is that of the
/// program, module or plugin that calls it, not that of a shared library which they have in common.
[[gnu::visibility("hidden")]] inline AbiIdentity abi_identity(std::string_view border) {
  return abi_identity(commit(), border);
}

/// A part of a border: how large structs are.
template <class... Structs>
std::string sizes_of() {
  return (... + (std::to_string(sizeof(Structs)) + "/" + std::to_string(alignof(Structs)) + " "));
}

}  // namespace lockstep
