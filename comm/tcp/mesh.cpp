#include "comm/tcp/mesh.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "comm/net/addresses.h"
#include "comm/net/handshake.h"
#include "comm/net/tcp.h"
#include "comm/polling.h"
#include "comm/rendezvous/start.h"
#include "comm/shm/local_rendezvous.h"
#include "kernels/base/deadline.h"
#include "kernels/base/error.h"
#include "kernels/base/host.h"
#include "kernels/base/log.h"

namespace lockstep::comm {
namespace {

constexpr Backoff::Pauses between_tries{.eager = std::chrono::microseconds(0),
                                        .first = std::chrono::milliseconds(1),
                                        .longest = std::chrono::milliseconds(100)};

constexpr Seconds shortest_wait{0.02};
constexpr Seconds longest_wait{1};

constexpr Seconds time_between_looks{1};
/// Rank 0 takes the store along; by then it has sent why.
constexpr Seconds time_to_tell{0.1};
constexpr Seconds time_to_answer{0.5};

/// Whoever is there takes a connection, unless packets are lost: they are sent again after 1 s.
constexpr Seconds time_to_connect{3};
constexpr Seconds time_before_warning{2};
constexpr Seconds time_for_nodes_to_start{5};
/// Who connects knows what is in its way, and tells it at the deadline: who admits waits for that.
constexpr Seconds grace_for_obstacle{1.5};

std::string key_of(int rank) {
  return peers_key + std::to_string(rank);
}

std::string purpose_of(int rank) {
  return fmt::format("data from rank {}", rank);
}

/// Where ranks look for each other, and what to see to when they do not come.
std::string place_of(const StoreClient& store) {
  return fmt::format("{}{}: were all nodes started with that address of rank 0?",
                     endpoint_name(store.address(), store.port()),
                     is_loopback_address(store.address()) ? ", which other hosts cannot reach" : "");
}

/// Why ranks do not come to where they look for each other, or what to see to then.
std::string reason_at(StoreClient& store) {
  const auto turned_away = store.wait_for(without_secret_key, Deadline::in(Seconds(0)));
  if (!turned_away) return place_of(store);
  return fmt::format("{}, which turned away a process of this run at {}",
                     endpoint_name(store.address(), store.port()), *turned_away);
}

/// What may be in the way of a data connection from `own` to another rank; empty when that rank has answered.
std::string advice(const std::string& own, const std::string& other, const Obstacle& obstacle) {
  if (obstacle.is_stranger || obstacle.is_final) return {};
  return is_loopback_address(other) && !is_loopback_address(own)
             ? "; only its own host reaches that address: give that rank another --interface"
             : "; is that port open to other hosts? --interface and --port-range choose another";
}

/// A peer closes a connection only when others crowd it out, so it is asked again.
Channel connect_peer(const PeerInfo& own, const PeerInfo& peer, const std::string& name,
                     const TlsContext& context, const ConnectionRequest& request, Deadline deadline,
                     const Look& look) {
  const std::string address = as_seen_from(own.address, peer.address);
  Backoff backoff(between_tries);
  std::optional<Deadline> warning = Deadline::in(time_before_warning);
  while (true) {
    Obstacle obstacle;
    const Deadline soon = Deadline::in(std::min(deadline.left(), time_to_connect));
    UniqueFd socket = connect_tcp(address, peer.port, soon, obstacle.text);
    if (socket) {
      Channel channel = prove(std::move(socket), context, request, deadline, obstacle);
      if (channel) return channel;
    }
    const std::string problem =
        fmt::format("no data connection to {} at {}: {}{}", name, endpoint_name(address, peer.port),
                    obstacle.text, advice(own.address, address, obstacle));
    if (obstacle.is_final || deadline.passed()) throw CommError(problem);
    if (warning && warning->passed()) {
      log::warn("{}; trying on", problem);
      warning.reset();
    }
    if (look) look();
    backoff.pause();
  }
}

void throw_refusal(StoreClient& store) {
  if (!store.has_all_answers()) return;
  if (const auto refusal = store.wait_for(refusal_key, Deadline::in(Seconds(0)))) throw UsageError(*refusal);
}

/// What the ranks from `rank` on have published. When the store goes without a word, whom this rank waits for
/// is still the reason.
std::vector<std::string> wait_for_peers(StoreClient& store, int rank, int ranks, Deadline deadline,
                                        MeetingWatch* watch) {
  std::optional<std::string> failure;
  try {
    auto published = store.wait_for_each(peers_key, rank, ranks, deadline);
    if (!published.empty()) return published;
    throw_refusal(store);
    if (watch != nullptr) failure = watch->failure();
  } catch (const CommError& error) {
    throw CommError(
        fmt::format("rank {} of {} had not joined the rendezvous: {}", rank, ranks, error.what()));
  }
  if (failure) throw CommError(*failure);
  return {};
}

void require_success(MeetingWatch& watch, const std::vector<PeerInfo>& peers) {
  std::optional<std::string> failure;
  try {
    failure = watch.failure();
  } catch (const CommError& error) {
    failure = fmt::format("{} was lost: {}", name_of(0, peers.front()), error.what());
  }
  if (failure) throw CommError(*failure);
}

void admit_peers(std::map<int, Channel>& channels, std::vector<int> awaited, AuthenticatedListener& listener,
                 const std::string& own_name, Deadline deadline, const Look& look) {
  const Deadline last = Deadline::in(deadline.left() + grace_for_obstacle);
  while (!awaited.empty()) {
    auto connection = listener.admit(Deadline::in(std::min(last.left(), time_between_looks)));
    if (!connection) {
      if (look) look();
      if (!last.passed()) continue;
      throw CommError(
          fmt::format("{} made no data connection to {} in time", name_of_ranks(awaited), own_name));
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

MeetingWatch::MeetingWatch(StoreClient& store, int rank, int ranks, Deadline deadline)
    : store_(store), rank_(rank), ranks_(ranks) {
  store_.watch(abort_key, deadline);
}

std::optional<std::string> MeetingWatch::failure() {
  if (auto reason = told()) return reason;
  if (rank_ != 0 || !next_look_.passed() || !store_.has_all_answers()) return std::nullopt;
  next_look_ = Deadline::in(time_between_looks);
  // Unless that rank has told why, before its place was free.
  if (const auto lost = lost_rank())
    return tell(fmt::format("{} was lost before all ranks had joined", *lost));
  return std::nullopt;
}

std::string MeetingWatch::tell(const std::string& reason) noexcept {
  std::string first = reason;
  try {
    const Deadline soon = Deadline::in(time_to_answer);
    if (auto earlier = told()) {
      first = *std::move(earlier);
    } else if (!store_.compare_and_set(abort_key, std::nullopt, reason, soon)) {
      first = store_.get(abort_key, soon).value_or(reason);
    }
  } catch (const std::exception&) {
    // Without the store the others end, too.
  }
  if (rank_ == 0) std::this_thread::sleep_for(time_to_tell);
  return first;
}

std::optional<std::string> MeetingWatch::told() {
  if (reason_) return reason_;
  if (auto change = store_.take_change()) reason_ = std::move(change->value);  // no other key is watched
  return reason_;
}

std::optional<std::string> MeetingWatch::lost_rank() {
  const Deadline now = Deadline::in(Seconds(0));
  for (int rank = 0; rank < ranks_; ++rank) {
    // In this order: a rank has its place before it publishes.
    const auto info = store_.wait_for(key_of(rank), now);
    const bool is_lost = info && !store_.wait_for(key_of_place(rank), now);
    // A late answer looks like none.
    if (!store_.has_all_answers()) return std::nullopt;
    if (is_lost) return name_of(rank, decode_peer_info(*info, rank));
  }
  return std::nullopt;
}

std::string node_hint(const std::string& name) {
  if (!name.empty()) return name;
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) != 0) network.st_ino = 0;
  const std::string boot = boot_id();
  return fmt::format("{} {} {}", boot.empty() ? host_name() : boot, network.st_ino, geteuid());
}

std::vector<PeerInfo> exchange_peer_info(StoreClient& store, int rank, int ranks, const PeerInfo& mine,
                                         Deadline deadline, MeetingWatch* watch) {
  if (!store.compare_and_set(key_of(rank), std::nullopt, encode(mine), deadline)) {
    const PeerInfo first = decode_peer_info(store.wait(key_of(rank), deadline), rank);
    throw CommError(
        fmt::format("{} was in this run and has left it: start all nodes again", name_of(rank, first)));
  }
  std::vector<PeerInfo> peers;
  std::optional<Deadline> warning;
  if (rank == 0) warning = Deadline::in(time_for_nodes_to_start);
  // Asks now and then who is there, to be able to name the next if the store goes.
  for (Seconds wait{0}; std::ssize(peers) < ranks; wait = std::clamp(2 * wait, shortest_wait, longest_wait)) {
    const int awaited = static_cast<int>(peers.size());
    const Deadline answer = Deadline::in(std::min(wait, deadline.left()));
    for (const std::string& text : wait_for_peers(store, awaited, ranks, answer, watch))
      peers.push_back(decode_peer_info(text, static_cast<int>(peers.size())));
    if (std::ssize(peers) != awaited) continue;
    const auto absent = [&] {
      return fmt::format("{} of {}", name_of_ranks(absent_ranks(store, awaited, ranks, key_of)), ranks);
    };
    if (deadline.passed()) {
      throw CommError(
          fmt::format("{} did not join the rendezvous in time at {}", absent(), reason_at(store)));
    }
    if (warning && warning->passed()) {
      log::warn("rank 0 waits for {} to join at {}", absent(), place_of(store));
      warning.reset();
    }
  }
  return peers;
}

Look look_at(MeetingWatch& watch, const std::vector<PeerInfo>& peers) {
  return [&watch, &peers] { require_success(watch, peers); };
}

std::vector<Link> connect_peers(const Placement& placement, int rank, const std::vector<PeerInfo>& peers,
                                const DataSecurity& security, AuthenticatedListener& listener,
                                Deadline deadline, const Look& look) {
  const TlsContext context(security.credentials);
  const ConnectionRequest request{.purpose = purpose_of(rank), .encrypted = security.encrypted};
  std::map<int, Channel> channels;
  std::vector<int> awaited;
  const PeerInfo& own = peers[static_cast<std::size_t>(rank)];
  for (const int number : placement.peers(rank)) {
    if (number > rank) {
      awaited.push_back(number);
      continue;
    }
    const PeerInfo& peer = peers[static_cast<std::size_t>(number)];
    channels[number] = connect_peer(own, peer, name_of(number, peer), context, request, deadline, look);
  }
  const std::string own_name =
      fmt::format("{} at {}", name_of(rank, own), endpoint_name(own.address, own.port));
  admit_peers(channels, std::move(awaited), listener, own_name, deadline, look);
  std::vector<Link> links;
  for (auto& [peer, channel] : channels) {
    links.emplace_back(peer, std::move(channel));
  }
  return links;
}

}  // namespace lockstep::comm
