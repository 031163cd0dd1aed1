#pragma once

#include <cstdint>
#include <string>

namespace lockstep::comm {

/// The identity that all processes of a run share.
struct Credentials {
  std::string run_id;
  std::string secret;             ///< never printed or sent; empty with --insecure: no protection
  std::uint64_t incarnation = 0;  ///< which start of the run it is; 0 where none was told
};

/// A fresh secret: 256 random bits as 64 hexadecimal digits.
std::string make_secret();

/// `count` cryptographically random bytes.
std::string random_bytes(std::size_t count);

}  // namespace lockstep::comm
