#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "comm/communicator.h"
#include "comm/shm/node_ranks.h"

namespace lockstep::comm {

/// Where the ranks of other nodes can read what this rank says, and the other way round. Calls come from one
/// thread at a time, wait for a second at most and never throw; what cannot be done is left undone.
class RemoteStatus {
 public:
  virtual ~RemoteStatus() = default;
  virtual void publish_status(const std::string& text) noexcept = 0;
  virtual std::string read_status(int rank) noexcept = 0;
  /// The first reason of all nodes: `reason`, or another that was there before.
  virtual std::string publish_abort(const std::string& reason) noexcept = 0;
};

/// A thread that tells once a second where this rank is, hears of a failure of the node, tells the other
/// nodes, and says a last time where this rank was. Statuses lie in the node's shared memory, and in `remote`
/// if there is one.
class Watchdog {
 public:
  /// `remote` is nullptr in a world of one node; `ranks` is the size of the world.
  Watchdog(NodeRanks& node, int ranks, RemoteStatus* remote);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void set_hooks(WatchHooks hooks);

  /// Once the group has failed: why, and where each rank was. Waits a moment for the others' last words.
  FailureReport report();
  /// Nothing before that.
  std::optional<FailureReport> failure_report();

 private:
  void run();
  WatchHooks hooks() const;
  void beat(bool last);
  std::string describe() const;
  std::optional<RankStatus> read(int rank);
  FailureReport ask_everybody();

  NodeRanks& node_;
  const int ranks_;
  RemoteStatus* remote_;
  std::mutex remote_mutex_;
  const std::string host_;

  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::uint64_t beats_ = 0;
  std::string cause_;
  WatchHooks hooks_;
  std::mutex report_mutex_;
  std::optional<FailureReport> report_;
  bool said_last_ = false;  ///< of the thread, and behind it of the destructor
  std::thread thread_;
};

}  // namespace lockstep::comm
