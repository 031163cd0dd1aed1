#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/net/authenticated_listener.h"
#include "comm/net/credentials.h"
#include "comm/polling.h"
#include "comm/store/client.h"
#include "comm/tcp/link.h"
#include "comm/tcp/peer_info.h"
#include "comm/tcp/placement.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// After the wait for the key of rank `awaited` timed out: that rank, even if its key has come since, and the
/// ranks after it whose keys are missing too.
std::vector<int> absent_ranks(StoreClient& store, int awaited, int ranks,
                              const std::function<std::string(int rank)>& key_of);

/// Whether the ranks that meet wait in vain. One that has published its PeerInfo and is lost does not come
/// back to this start of the run (join_start). Rank 0, which has the store, looks for such, and tells all by
/// abort_key, which the store sends to each at once.
class MeetingWatch {
 public:
  /// Of the rank `rank` of `ranks`; `store` outlives it.
  MeetingWatch(StoreClient& store, int rank, int ranks, Deadline deadline);

  /// Why this start has failed, the same on all ranks. Waits on rank 0 alone, which looks for lost ranks once
  /// a second, however often it is called. CommError when the store is lost and had told nothing.
  std::optional<std::string> failure();
  /// Before this rank leaves: its `reason` becomes the failure, unless there is one. The failure.
  std::string tell(const std::string& reason) noexcept;

 private:
  /// What the store has told, also when it is lost since.
  std::optional<std::string> told();
  /// The first that is lost, with its process, whether or not ranks before it have come.
  std::optional<std::string> lost_rank();

  StoreClient& store_;
  int rank_;
  int ranks_;
  std::optional<std::string> reason_;
  Deadline next_look_ = Deadline::in(Seconds(1));
};

/// Equal on ranks of one machine that reach each other's abstract sockets: boot, network namespace and user.
/// `name` (LOCKSTEP_NODE), when not empty, splits or joins them by hand.
std::string node_hint(const std::string& name);

/// Every rank's info, by rank. CommError names the ranks that did not publish theirs by the deadline, or the
/// process that was this rank before. With a `watch` of the same store: its failure, too.
std::vector<PeerInfo> exchange_peer_info(StoreClient& store, int rank, int ranks, const PeerInfo& mine,
                                         Deadline deadline, MeetingWatch* watch = nullptr);

/// For what follows the exchange: throws the failure of `watch`, or that rank 0 of `peers` is lost with the
/// store. Both outlive it.
Look look_at(MeetingWatch& watch, const std::vector<PeerInfo>& peers);

/// How data connections are protected; the same on all ranks.
struct DataSecurity {
  Credentials credentials;
  bool encrypted = true;  ///< false: proved, and then without TLS
};

/// A proved data connection to each of `rank`'s peers, in their order. The higher rank connects, the lower
/// admits. CommError names the peer that could not be reached, or did not come.
std::vector<Link> connect_peers(const Placement& placement, int rank, const std::vector<PeerInfo>& peers,
                                const DataSecurity& security, AuthenticatedListener& listener,
                                Deadline deadline, const Look& look = {});

}  // namespace lockstep::comm
