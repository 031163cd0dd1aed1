#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "comm/polling.h"
#include "comm/shm/local_rendezvous.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// A thread that watches the sockets to the peers and calls `on_lost`, which must not throw, when one closes
/// without a goodbye message. On the leader it also tells a second start of a member that the first runs.
/// The destructor sends goodbye to the peers.
class Monitor {
 public:
  /// Takes the group's sockets. `members` outlives this.
  Monitor(LocalGroup& group, const NodeMembers& members, std::function<void(const LocalPeer&)> on_lost);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

 private:
  void watch();
  /// False after the peer's goodbye or loss.
  bool read_message(const LocalPeer& peer) const;
  void accept_newcomers();
  /// False while its hello has not come.
  bool answer_newcomer(int socket) const;
  LocalMessage answer_to(const LocalMessage& hello) const;

  const NodeMembers& members_;
  std::vector<LocalPeer> peers_;
  std::vector<bool> has_left_;  ///< by peer
  UniqueFd listener_;           ///< the leader's
  std::vector<UniqueFd> newcomers_;
  AcceptPause pause_;
  std::function<void(const LocalPeer&)> on_lost_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace lockstep::comm
