#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::data {

/// DataError "FILE: REASON".
[[noreturn]] inline void fail(const std::filesystem::path& path, const std::string& reason) {
  throw DataError(fmt::format("{}: {}", path.string(), reason));
}

/// DataError "FILE: offset N: REASON".
[[noreturn]] inline void fail(const std::filesystem::path& path, std::uint64_t offset,
                              const std::string& reason) {
  throw DataError(fmt::format("{}: offset {}: {}", path.string(), offset, reason));
}

}  // namespace lockstep::data
