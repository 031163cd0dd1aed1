#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "comm/net/tcp.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm::testing {

/// Somebody in the middle: takes connections on a port, makes one to the real port for each, and passes on
/// what either end says, as it comes or altered.
class Relay {
 public:
  /// Bytes on their way, and how many went that way on this connection before them.
  using Alter = std::function<void(std::string& bytes, std::size_t offset, bool to_client)>;

  Relay(UniqueFd listener, int target_port, Alter alter = {});
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  int port() const { return local_port(listener_.get()); }
  /// Of the connections that come from now on.
  void set_target(int port) { target_port_ = port; }
  /// All that went through, as it came.
  std::string seen() const;

 private:
  struct Way {
    int from;
    int to;
    bool to_client;
    std::size_t passed = 0;
  };
  struct Pair {
    UniqueFd client;
    UniqueFd server;
    Way up;
    Way down;
  };

  void run();
  void admit();
  /// False when either end is gone.
  bool pass_on(Way& way);

  UniqueFd listener_;
  std::atomic<int> target_port_;
  Alter alter_;
  UniqueFd stop_;
  std::list<Pair> pairs_;
  mutable std::mutex mutex_;
  std::string seen_;
  std::thread thread_;
};

}  // namespace lockstep::comm::testing
