#pragma once

#include <string>

namespace simgpu {

/// Where the program under test made a call.
struct Origin {
  std::string site;               ///< "file.cu:12" where the caller told it
  const void* address = nullptr;  ///< of the instruction after the call

  /// The site, or "program+0x1234" (for addr2line -f -e).
  std::string text() const;
};

}  // namespace simgpu
