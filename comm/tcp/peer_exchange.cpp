#include "comm/tcp/peer_exchange.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "comm/net/frame.h"
#include "comm/shm/local_rendezvous.h"
#include "comm/tcp/absent_ranks.h"
#include "kernels/base/error.h"
#include "kernels/base/host.h"

namespace lockstep::comm {
namespace {

std::string encode(const PeerInfo& peer) {
  return FieldWriter()
      .text(peer.node)
      .text(peer.host)
      .number(peer.pid)
      .text(peer.address)
      .number(peer.port)
      .take();
}

PeerInfo decode(const std::string& text, int rank) {
  FieldReader fields(text);
  const auto node = fields.text();
  const auto host = fields.text();
  const auto pid = fields.number();
  const auto address = fields.text();
  const auto port = fields.number();
  if (!port || !fields.at_end())
    throw CommError(fmt::format("rank {} sent peer info that cannot be read", rank));
  return {.node = *node,
          .host = *host,
          .pid = static_cast<int>(*pid),
          .address = *address,
          .port = static_cast<int>(*port)};
}

std::string key_of(int rank) {
  return fmt::format("peer/{}", rank);
}

}  // namespace

std::string name_of(int rank, const PeerInfo& peer) {
  return fmt::format("rank {} (pid {} on {})", rank, peer.pid, peer.host);
}

std::string node_hint(const std::string& name) {
  if (!name.empty()) return name;
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) != 0) network.st_ino = 0;
  return fmt::format("{} {} {}", boot_id(), network.st_ino, geteuid());
}

std::vector<PeerInfo> exchange_peer_info(StoreClient& store, int rank, int ranks, const PeerInfo& mine,
                                         Deadline deadline) {
  store.set(key_of(rank), encode(mine), deadline);
  std::vector<PeerInfo> peers;
  for (int other = 0; other < ranks; ++other) {
    const auto peer = store.wait_for(key_of(other), deadline);
    if (!peer) {
      throw CommError(fmt::format("{} of {} did not come to the meeting in time",
                                  name_of_ranks(absent_ranks(store, other, ranks, key_of)), ranks));
    }
    peers.push_back(decode(*peer, other));
  }
  return peers;
}

}  // namespace lockstep::comm
