#pragma once

#include <array>
#include <string>

#include "comm/net/credentials.h"

namespace lockstep::comm {

/// What all processes of a run derive from its credentials, and nobody else can.
struct RunKey {
  std::array<unsigned char, 32> key;
  std::string run;       ///< names run and incarnation, and tells nothing about them
  std::string identity;  ///< what is sent in the clear: the run, and whether it has a secret
};

/// By HKDF-SHA256 (RFC 5869) from the secret, the run id and the incarnation.
RunKey derive_run_key(const Credentials& credentials);

}  // namespace lockstep::comm
