#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

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

/// SHA-256 of bytes given in pieces.
class Sha256 {
 public:
  using Digest = std::array<std::byte, 32>;

  Sha256();

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text) { return update(std::as_bytes(std::span(text))); }

  /// Of all bytes so far; more may follow.
  Digest digest() const;
  /// The digest as 64 lower-case hexadecimal digits.
  std::string hex() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace lockstep
