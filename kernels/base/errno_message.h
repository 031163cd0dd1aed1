#pragma once

#include <string>
#include <system_error>

namespace lockstep {

/// "No space left on device" for ENOSPC; safe to call from any thread, unlike strerror.
inline std::string errno_message(int error) {
  return std::generic_category().message(error);
}

}  // namespace lockstep
