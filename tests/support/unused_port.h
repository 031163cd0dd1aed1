#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "kernels/base/error.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::tests {

/// Of the loopback interface; the kernel does not give it to another socket soon.
inline int unused_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd.get(), any, bytes) != 0 || ::getsockname(fd.get(), any, &bytes) != 0) {
    throw DeviceError("no unused port: " + errno_message(errno));
  }
  return ntohs(address.sin_port);
}

}  // namespace lockstep::tests
