#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::comm {

/// The identity that all processes of a run share.
struct Credentials {
  std::string run_id;
  std::string secret;             ///< never printed or sent; empty with --insecure: no protection
  std::uint64_t incarnation = 0;  ///< which start of the run it is; 0 where none was told
};

/// What a secret needs at least, so that nobody finds it by trying.
inline constexpr std::size_t least_secret_bytes = 16;

/// A fresh secret: 256 random bits as 64 hexadecimal digits.
std::string make_secret();

}  // namespace lockstep::comm
