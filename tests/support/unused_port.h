#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <fstream>
#include <random>

#include "kernels/base/error.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::tests {

/// The kernel gives this port and those above it to sockets that choose none, such as every connection's own
/// end.
inline int first_ephemeral_port() {
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0;
  range >> first;
  return first;
}

inline bool is_unused(int port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

/// By chance, and where it can be below those that the kernel gives away: a socket that chooses none does not
/// take it meanwhile.
inline int unused_port() {
  constexpr int least = 16384;
  constexpr int enough = 1000;
  const int first = first_ephemeral_port();
  std::uniform_int_distribution<int> ports(least, first >= least + enough ? first - 1 : 65535);
  std::random_device chance;
  for (int attempt = 0; attempt < enough; ++attempt) {
    const int port = ports(chance);
    if (is_unused(port)) return port;
  }
  throw DeviceError("no unused port");
}

}  // namespace lockstep::tests
