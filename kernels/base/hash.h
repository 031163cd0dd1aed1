#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// FNV-1a, 64 bits (RFC 9923): the same on every machine, for names and not for secrets.
constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace lockstep
