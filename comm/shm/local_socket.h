#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// One datagram of the local rendezvous. Both ends run on one machine, so it is sent in memory layout.
struct LocalMessage {
  enum class Type : std::uint16_t {
    hello = 1,  ///< the nonce: World::start_ns
    welcome,
    ready,
    go,
    refuse,
    goodbye,
    taken,    ///< its rank runs already: the text names it
    leaving,  ///< the group comes to its end: another may form
  };
  static constexpr std::uint32_t expected_magic = 0x4C4B4D54;
  static constexpr std::uint16_t expected_version = 1;

  std::uint32_t magic = expected_magic;
  std::uint16_t version = expected_version;
  Type type = Type::hello;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint64_t nonce = 0;
  char text[512] = {};

  void set_text(std::string_view value);
};

struct LocalCredentials {
  pid_t pid;
  uid_t uid;
};

enum class Arrival { message, nothing_yet, closed, malformed };

/// Listens on the abstract Unix socket `name`. An empty UniqueFd when the name is taken.
UniqueFd listen_local(const std::string& name);

/// An empty UniqueFd when no process listens yet.
UniqueFd connect_local(const std::string& name);

/// Never waits. An empty UniqueFd, with errno, when nobody waits there or there is no room for a connection.
UniqueFd accept_local(int listener);

/// The process and user at the other end, from the kernel.
LocalCredentials peer_credentials(int socket);

/// Hands `passed_fd` over too, unless it is -1. False when the peer is gone or the kernel does not take the
/// message: then the connection has ended, at both ends. Never raises SIGPIPE.
bool send_local(int socket, const LocalMessage& message, int passed_fd = -1) noexcept;

/// Never waits. A passed descriptor is stored in `passed_fd` when that is given.
Arrival receive_local(int socket, LocalMessage& message, UniqueFd* passed_fd = nullptr);

}  // namespace lockstep::comm
