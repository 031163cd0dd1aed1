#include "kernels/base/random.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <vector>

#include "kernels/base/error.h"

namespace lockstep {

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> random(bytes);
  for (std::size_t filled = 0; filled < bytes;) {
    const ssize_t got = ::getrandom(random.data() + filled, bytes - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw DeviceError("the kernel gives no random bytes: " + errno_message(errno));
    filled += static_cast<std::size_t>(got);
  }
  std::string text;
  for (const unsigned char byte : random) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace lockstep
