#include "comm/tcp/mesh.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "comm/net/addresses.h"
#include "comm/net/handshake.h"
#include "comm/net/tcp.h"
#include "comm/polling.h"
#include "comm/rendezvous/start.h"
#include "comm/shm/local_rendezvous.h"
#include "kernels/base/deadline.h"
#include "kernels/base/error.h"
#include "kernels/base/host.h"

namespace lockstep::comm {
namespace {

constexpr Backoff::Pauses between_tries{.eager = std::chrono::microseconds(0),
                                        .first = std::chrono::milliseconds(1),
                                        .longest = std::chrono::milliseconds(100)};

constexpr Seconds shortest_wait{0.02};
constexpr Seconds longest_wait{1};

std::string key_of(int rank) {
  return peers_key + std::to_string(rank);
}

std::string purpose_of(int rank) {
  return fmt::format("data from rank {}", rank);
}

/// A peer closes a connection only when others crowd it out, so it is asked again.
Channel connect_peer(const PeerInfo& peer, const std::string& name, const TlsContext& context,
                     const ConnectionRequest& request, Deadline deadline) {
  Obstacle obstacle;
  Backoff backoff(between_tries);
  while (true) {
    Channel channel = connect_proved(peer.address, peer.port, context, request, deadline, obstacle);
    if (channel) return channel;
    if (obstacle.is_final || deadline.passed()) {
      throw CommError(fmt::format("no data connection to {} at {}: {}", name,
                                  endpoint_name(peer.address, peer.port), obstacle.text));
    }
    backoff.pause();
  }
}

void throw_refusal(StoreClient& store) {
  if (!store.has_all_answers()) return;
  if (const auto refusal = store.wait_for(refusal_key, Deadline::in(Seconds(0)))) throw UsageError(*refusal);
}

/// What ranks from `rank` on have published. Rank 0, which has the store, may give up first: then whom all
/// waited for is still the reason.
std::vector<std::string> wait_for_peers(StoreClient& store, int rank, int ranks, Deadline deadline) {
  try {
    auto published = store.wait_for_each(peers_key, rank, ranks, deadline);
    if (published.empty()) throw_refusal(store);
    return published;
  } catch (const CommError& error) {
    throw CommError(
        fmt::format("rank {} of {} had not joined the rendezvous: {}", rank, ranks, error.what()));
  }
}

void admit_peers(std::map<int, Channel>& channels, std::vector<int> awaited, AuthenticatedListener& listener,
                 Deadline deadline) {
  while (!awaited.empty()) {
    auto connection = listener.admit(deadline);
    if (!connection) {
      throw CommError(fmt::format("{} made no data connection in time", name_of_ranks(awaited)));
    }
    const auto peer =
        std::ranges::find_if(awaited, [&](int rank) { return purpose_of(rank) == connection->purpose; });
    if (peer == awaited.end()) continue;
    channels[*peer] = std::move(connection->channel);
    awaited.erase(peer);
  }
}

}  // namespace

std::vector<int> absent_ranks(StoreClient& store, int awaited, int ranks,
                              const std::function<std::string(int rank)>& key_of) {
  if (!store.has_all_answers()) return {0};  // it holds the store
  std::vector<int> absent{awaited};
  for (int rank = awaited + 1; rank < ranks; ++rank) {
    if (!store.wait_for(key_of(rank), Deadline::in(Seconds(0)))) absent.push_back(rank);
    if (!store.has_all_answers()) return {0};
  }
  return absent;
}

std::string node_hint(const std::string& name) {
  if (!name.empty()) return name;
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) != 0) network.st_ino = 0;
  const std::string boot = boot_id();
  return fmt::format("{} {} {}", boot.empty() ? host_name() : boot, network.st_ino, geteuid());
}

std::vector<PeerInfo> exchange_peer_info(StoreClient& store, int rank, int ranks, const PeerInfo& mine,
                                         Deadline deadline) {
  if (!store.compare_and_set(key_of(rank), std::nullopt, encode(mine), deadline)) {
    const PeerInfo first = decode_peer_info(store.wait(key_of(rank), deadline), rank);
    throw CommError(
        fmt::format("{} was in this run and has left it: start all nodes again", name_of(rank, first)));
  }
  std::vector<PeerInfo> peers;
  // Asks now and then who is there, to be able to name the next if the store goes.
  for (Seconds wait{0}; std::ssize(peers) < ranks; wait = std::clamp(2 * wait, shortest_wait, longest_wait)) {
    const int awaited = static_cast<int>(peers.size());
    const Deadline answer = Deadline::in(std::min(wait, deadline.left()));
    for (const std::string& text : wait_for_peers(store, awaited, ranks, answer))
      peers.push_back(decode_peer_info(text, static_cast<int>(peers.size())));
    if (std::ssize(peers) == awaited && deadline.passed()) {
      throw CommError(fmt::format("{} of {} did not join the rendezvous in time: were all nodes started?",
                                  name_of_ranks(absent_ranks(store, awaited, ranks, key_of)), ranks));
    }
  }
  return peers;
}

std::vector<Link> connect_peers(const Placement& placement, int rank, const std::vector<PeerInfo>& peers,
                                const DataSecurity& security, AuthenticatedListener& listener,
                                Deadline deadline) {
  const TlsContext context(security.credentials);
  const ConnectionRequest request{.purpose = purpose_of(rank), .encrypted = security.encrypted};
  std::map<int, Channel> channels;
  std::vector<int> awaited;
  for (const int number : placement.peers(rank)) {
    if (number > rank) {
      awaited.push_back(number);
      continue;
    }
    PeerInfo peer = peers[static_cast<std::size_t>(number)];
    peer.address = as_seen_from(peers[static_cast<std::size_t>(rank)].address, peer.address);
    channels[number] = connect_peer(peer, name_of(number, peer), context, request, deadline);
  }
  admit_peers(channels, std::move(awaited), listener, deadline);
  std::vector<Link> links;
  for (auto& [peer, channel] : channels) {
    links.emplace_back(peer, std::move(channel));
  }
  return links;
}

}  // namespace lockstep::comm
