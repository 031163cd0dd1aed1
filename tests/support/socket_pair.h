#pragma once

#include <sys/socket.h>

#include "kernels/base/unique_fd.h"
#include "tests/support/catch.h"

namespace lockstep::tests {

/// Two ends that are connected, for what takes any socket.
struct SocketPair {
  SocketPair() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    client.reset(ends[0]);
    server.reset(ends[1]);
  }
  UniqueFd client;
  UniqueFd server;
};

}  // namespace lockstep::tests
