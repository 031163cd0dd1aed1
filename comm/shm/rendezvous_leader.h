#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/polling.h"
#include "comm/shm/local_rendezvous.h"
#include "comm/shm/local_socket.h"

namespace lockstep::comm {

/// The leader's side of the local rendezvous: admits the peers one by one. Connections of other users and
/// without a handshake are rejected or ignored; they delay no peer.
class RendezvousLeader {
 public:
  explicit RendezvousLeader(const NodeMembers& members);

  /// Once: the group, when all have come.
  LocalGroup gather(Deadline deadline, const Look& look);

 private:
  struct Peer {
    UniqueFd socket;
    pid_t pid = 0;
    int index = -1;  ///< among the members; not known before its hello
    bool ready = false;
  };

  UniqueFd listen_before(Deadline deadline, const Look& look) const;
  /// UsageError when who has the socket leads this run: this process is its second start. Else who has
  /// it, if that is another user.
  std::optional<LocalCredentials> ask_holder(Deadline deadline) const;
  void wait_for_events(int listener, Deadline deadline, const Look& look) const;
  void admit_waiting(int listener);
  void read_messages(Peer& peer);
  void answer_hello(Peer& peer, const LocalMessage& hello);
  void check_nonce(Peer& peer, const LocalMessage& ready) const;
  void reject(Peer& peer, const std::string& reason) const;
  static void refuse_second_start(Peer& peer, const std::string& first);
  bool all_ready() const;
  [[noreturn]] void give_up(const std::string& reason) const;
  void refuse_all(const std::string& reason) const;
  std::string name_of(const Peer& peer) const;
  std::vector<int> missing() const;

  const NodeMembers& members_;
  Segment segment_;
  std::vector<Peer> peers_;
};

}  // namespace lockstep::comm
