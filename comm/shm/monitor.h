#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "comm/shm/local_rendezvous.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// A thread that watches the sockets to the peers and calls `on_lost`, which must not throw, when one closes
/// without a goodbye message. The destructor sends goodbye to the peers.
class Monitor {
 public:
  Monitor(std::vector<LocalPeer> peers, std::function<void(const LocalPeer&)> on_lost);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

 private:
  void watch();
  /// False after the peer's goodbye or loss.
  bool read_message(const LocalPeer& peer) const;

  std::vector<LocalPeer> peers_;
  std::function<void(const LocalPeer&)> on_lost_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace lockstep::comm
