#include "comm/net/credentials.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>

#include "kernels/base/error.h"

namespace lockstep::comm {

std::string make_secret() {
  std::array<unsigned char, 32> bytes;
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw DeviceError(fmt::format("the system gives no random bytes: {}", errno_message(errno)));
    }
    filled += static_cast<std::size_t>(got);
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

}  // namespace lockstep::comm
