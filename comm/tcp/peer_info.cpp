#include "comm/tcp/peer_info.h"

#include <fmt/format.h>

#include "comm/net/frame.h"
#include "kernels/base/error.h"

namespace lockstep::comm {

std::string name_of(int rank, const PeerInfo& peer) {
  return fmt::format("rank {} (pid {} on {})", rank, peer.pid, peer.host);
}

std::string encode(const PeerInfo& peer) {
  return FieldWriter()
      .text(peer.node)
      .text(peer.host)
      .number(peer.pid)
      .text(peer.address)
      .number(peer.port)
      .take();
}

PeerInfo decode_peer_info(const std::string& text, int rank) {
  FieldReader fields(text);
  const auto node = fields.text();
  const auto host = fields.text();
  const auto pid = fields.number();
  const auto address = fields.text();
  const auto port = fields.number();
  if (!node || !host || !pid || !address || !port || !fields.at_end())
    throw CommError(fmt::format("rank {} sent peer info that cannot be read", rank));
  return {.node = *node,
          .host = *host,
          .pid = static_cast<int>(*pid),
          .address = *address,
          .port = static_cast<int>(*port)};
}

}  // namespace lockstep::comm
