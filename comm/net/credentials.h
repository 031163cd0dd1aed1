#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/base/random.h"

namespace lockstep::comm {

/// The identity that all processes of a run share.
struct Credentials {
  std::string run_id;
  std::string secret;  ///< never printed or sent; empty with --insecure: no protection
  /// Which start of the run it is: at the store how often it was started again (World::restart), at data
  /// ports what rank 0 has drawn.
  std::uint64_t incarnation = 0;
};

/// What a secret needs at least, so that nobody finds it by trying.
inline constexpr std::size_t least_secret_bytes = 16;

/// A fresh secret: 256 random bits as 64 hexadecimal digits.
inline std::string make_secret() {
  return random_hex(32);
}

/// What all processes of a run derive from its credentials, and nobody else can.
struct RunKey {
  std::array<unsigned char, 32> key;
  std::string run;       ///< names run and incarnation, and tells nothing about them
  std::string identity;  ///< what is sent in the clear: the run, and whether it has a secret
};

/// By HKDF-SHA256 (RFC 5869) from the secret, the run id and the incarnation.
RunKey derive_run_key(const Credentials& credentials);

}  // namespace lockstep::comm
