#pragma once

#include <string>

namespace lockstep::comm {

/// What all processes of a run have in common and no other has.
struct Credentials {
  std::string run_id;
  std::string secret;  ///< never printed or sent; empty (--insecure): anybody can prove it
};

/// A fresh secret: 256 random bits as 64 hexadecimal digits.
std::string make_secret();

/// `count` bytes that nobody can guess.
std::string random_bytes(std::size_t count);

}  // namespace lockstep::comm
