#pragma once

#include <stdexcept>
#include <string>
#include <system_error>

#include "kernels/base/export.h"

namespace lockstep {

/// Exit codes of `trainer` and `launch`; part of the command-line contract.
enum class ExitCode : int {
  done = 0,
  usage = 2,
  data = 3,
  device = 4,
  peer = 5,
  not_finite = 6,
  stopped = 75
};

/// A message with a path or a prompt in it, whose line breaks and other control characters are shown as such.
inline std::string on_one_line(const std::string& message) {
  constexpr const char* digits = "0123456789abcdef";
  std::string line;
  for (const char character : message) {
    const auto code = static_cast<unsigned char>(character);
    if (character == '\n') {
      line += "\\n";
    } else if (character == '\t') {
      line += "\\t";
    } else if (code < 0x20 || code == 0x7F) {
      line += {'\\', 'x', digits[code >> 4], digits[code & 0xF]};
    } else {
      line += character;
    }
  }
  return line;
}

/// An error that a user can act on. The message is one line: what happened, where, and the hint.
class LOCKSTEP_API Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(on_one_line(message)), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// Wrong use: an option, a value, a model that does not fit its data.
struct LOCKSTEP_API UsageError : Error {
  explicit UsageError(const std::string& message) : Error(ExitCode::usage, message) {}
};

/// A damaged or unreadable file: names the file, the offset where known, and the reason.
struct LOCKSTEP_API DataError : Error {
  explicit DataError(const std::string& message) : Error(ExitCode::data, message) {}
};

/// A device, a library or the operating system refused something.
struct LOCKSTEP_API DeviceError : Error {
  explicit DeviceError(const std::string& message) : Error(ExitCode::device, message) {}
};

/// A peer was lost, late or disagrees.
struct LOCKSTEP_API CommError : Error {
  explicit CommError(const std::string& message) : Error(ExitCode::peer, message) {}
};

/// The loss or a gradient is not a number.
struct LOCKSTEP_API NonFiniteError : Error {
  explicit NonFiniteError(const std::string& message) : Error(ExitCode::not_finite, message) {}
};

/// "No space left on device" for ENOSPC; safe to call from any thread, unlike strerror.
inline std::string errno_message(int error) {
  return std::generic_category().message(error);
}

}  // namespace lockstep
