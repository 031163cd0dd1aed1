// Bytes that an unauthenticated peer may send. The first byte chooses the side that receives them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "comm/net/handshake.h"

using lockstep::comm::HandshakeProtocol;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const lockstep::comm::Credentials credentials{"run", "secret"};
  HandshakeProtocol side = data[0] % 2 == 0 ? HandshakeProtocol::server(credentials, "store:")
                                            : HandshakeProtocol::client(credentials, "store:");
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t step = 1 + data[0] / 2U;
  while (!rest.empty()) {
    side.receive(rest.substr(0, step));
    rest.remove_prefix(std::min(step, rest.size()));
  }
  if (side.state() == HandshakeProtocol::State::proved) std::abort();
  if (side.take_outgoing().size() > 1024) std::abort();
  return 0;
}
