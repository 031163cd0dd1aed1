#include "comm/net/credentials.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>

#include "kernels/base/error.h"

namespace lockstep::comm {

std::string make_secret() {
  std::string text;
  for (const char byte : random_bytes(32)) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t filled = 0;
  while (filled < count) {
    const ssize_t got = getrandom(bytes.data() + filled, count - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw DeviceError(fmt::format("the system gives no random bytes: {}", errno_message(errno)));
    }
    filled += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace lockstep::comm
