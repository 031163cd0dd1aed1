#include "comm/tcp/mesh.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "comm/net/tcp.h"
#include "comm/shm/local_rendezvous.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

std::string purpose_of(int rank) {
  return fmt::format("data from rank {}", rank);
}

UniqueFd connect_peer(int rank, int peer_rank, const PeerInfo& peer, const Credentials& credentials,
                      Deadline deadline) {
  std::string obstacle;
  UniqueFd socket =
      connect_proved(peer.address, peer.port, credentials, purpose_of(rank), deadline, obstacle);
  if (socket) return socket;
  throw CommError(fmt::format("no data connection to {} at {}:{}: {}", name_of(peer_rank, peer), peer.address,
                              peer.port, obstacle.empty() ? "it does not answer" : obstacle));
}

void admit_peers(std::map<int, UniqueFd>& sockets, std::vector<int> awaited, AuthenticatedListener& listener,
                 Deadline deadline) {
  while (!awaited.empty()) {
    auto connection = listener.admit(deadline);
    if (!connection) {
      throw CommError(fmt::format("{} made no data connection in time", name_of_ranks(awaited)));
    }
    const auto peer =
        std::ranges::find_if(awaited, [&](int rank) { return purpose_of(rank) == connection->purpose; });
    if (peer == awaited.end()) continue;
    sockets[*peer] = std::move(connection->socket);
    awaited.erase(peer);
  }
}

}  // namespace

std::vector<Link> connect_peers(const Placement& placement, int rank, const std::vector<PeerInfo>& peers,
                                const Credentials& credentials, AuthenticatedListener& listener,
                                Deadline deadline) {
  std::map<int, UniqueFd> sockets;
  std::vector<int> awaited;
  for (const int peer : placement.peers(rank)) {
    if (peer > rank) {
      awaited.push_back(peer);
    } else {
      sockets[peer] = connect_peer(rank, peer, peers[static_cast<std::size_t>(peer)], credentials, deadline);
    }
  }
  admit_peers(sockets, std::move(awaited), listener, deadline);
  std::vector<Link> links;
  for (auto& [peer, socket] : sockets) {
    expect_slow_reader(
        socket.get());  // a peer reads only in collectives; the store's connections notice dead links
    links.emplace_back(peer, std::move(socket));
  }
  return links;
}

}  // namespace lockstep::comm
