// Bytes that an unauthenticated peer may send, through a socket. The first byte chooses the side that
// receives them.
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "comm/net/handshake.h"

using namespace lockstep;
using namespace lockstep::comm;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TlsContext context({"run", "the secret of the fuzzer"});
  int ends[2];
  if (size == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return 0;
  const UniqueFd peer(ends[1]);
  const auto role = data[0] % 2 == 0 ? Handshake::Role::server : Handshake::Role::client;
  Handshake side(UniqueFd(ends[0]), context, role, {.purpose = "store:"}, Deadline::in(Seconds(10)));
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t step = 1 + data[0] / 2U;
  while (!rest.empty() && side.state() == Handshake::State::pending) {
    std::string_view piece = rest.substr(0, step);
    rest.remove_prefix(piece.size());
    if (send_some(peer.get(), piece) != Transfer::some) break;
    side.advance();
  }
  if (side.state() == Handshake::State::proved || side.peer_shows_secret()) std::abort();
  return 0;
}
