#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "comm/shm/local_rendezvous.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// A thread that watches the sockets to the peers. `on_lost` is called on it when one closes without a
/// goodbye; it must not throw. Destroying the monitor says goodbye to the peers.
class Monitor {
 public:
  Monitor(std::vector<LocalPeer> peers, std::function<void(const LocalPeer&)> on_lost);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

 private:
  void watch();
  /// False when there is nothing more to expect from this peer.
  bool hear(const LocalPeer& peer) const;

  std::vector<LocalPeer> peers_;
  std::function<void(const LocalPeer&)> on_lost_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace lockstep::comm
