#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/watchdog/failure_report.h"
#include "comm/watchdog/heartbeats.h"

namespace lockstep::comm {

/// What the watchdog reads and writes of the ranks of its own node. Calls come from any thread.
class NodeStatus {
 public:
  virtual ~NodeStatus() = default;
  /// This process's.
  virtual int rank() const = 0;
  /// The collective in progress, or the last one: its number, and "in all-reduce 17 (bucket 0, fc1.weight)"
  /// or "after ...".
  virtual std::uint32_t call_number() const = 0;
  virtual std::string describe_call() const = 0;

  virtual bool aborted() const noexcept = 0;
  /// The node's first, once it is aborted.
  virtual std::string abort_reason() const = 0;

  /// True for the first caller of the node: it may print the report.
  virtual bool claim_report() noexcept = 0;

  virtual void publish_status(std::string_view text) noexcept = 0;
  /// Nothing when the rank is on another node; empty before its first status.
  virtual std::optional<std::string> read_status(int rank) const = 0;
  /// Whether its connection to this rank has closed: it is gone, whatever its status says.
  virtual bool has_lost(int rank) const = 0;
};

/// The same for the ranks of other nodes. Calls come from one thread at a time, wait for a second at most and
/// never throw; what fails is left undone.
class RemoteStatus {
 public:
  virtual ~RemoteStatus() = default;
  /// One that others do not take at once is left out: the next comes a second later.
  virtual void publish_heartbeat(const std::string& text) noexcept = 0;
  virtual void publish_final_status(const std::string& text) noexcept = 0;
  /// Nothing when nobody answers; empty before its first status.
  virtual std::optional<std::string> read_status(int rank) noexcept = 0;
  /// The first reason of all nodes: `reason`, or one that was published before.
  virtual std::string publish_abort(const std::string& reason) noexcept = 0;
  /// Ranks whose connections to this one are closed, and who should answer and does not.
  virtual std::vector<int> lost_ranks() noexcept = 0;
  /// True for the first caller of all nodes, and when nobody answers. The others are told `cause`.
  virtual bool claim_report(const std::string& cause) noexcept = 0;
};

/// A thread that publishes this rank's status once a second, tells of ranks whose heartbeats stay away,
/// notices when the node is aborted, tells the other nodes, and publishes the final status.
class Watchdog {
 public:
  /// `remote` is nullptr in a world of one node; `ranks` is the size of the world.
  Watchdog(NodeStatus& node, int ranks, RemoteStatus* remote);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void set_hooks(WatchHooks hooks);

  /// Once the group has failed: the cause, and where each rank was. Waits at most 1.1 s for the others' final
  /// statuses.
  FailureReport report();
  /// Nothing before that.
  std::optional<FailureReport> failure_report();
  /// A rank of another node prints the report, whose cause this is. From any thread.
  void yield_report(std::string cause);
  /// The newest of any rank; nothing when it cannot be known now.
  std::optional<RankStatus> status_of(int rank);
  /// The ranks that have not come to the collective that this rank is in, as far as their statuses tell.
  std::vector<int> ranks_behind();

 private:
  void run();
  bool has_advanced(Clock::duration since_last_status) const;
  WatchHooks hooks() const;
  void publish_heartbeat();
  void publish_final_status(std::vector<int> lost);
  std::vector<int> lost_ranks();
  RankStatus status();
  std::string describe() const;
  std::string first_cause() const;
  std::string yielded_cause() const;
  Clock::time_point failure_time() const;
  void tell_of_silent_ranks(Clock::time_point now);
  FailureReport collect_statuses();
  /// Its cause as it is shown, and whether this rank prints it.
  void settle(FailureReport& report);

  NodeStatus& node_;
  const int ranks_;
  RemoteStatus* remote_;
  std::mutex remote_mutex_;
  const std::string host_;

  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::uint64_t beats_ = 0;
  std::optional<Clock::time_point> failed_at_;  ///< set by the thread, read by others under mutex_
  std::uint64_t published_progress_ = 0;        ///< the thread's
  std::string cause_;
  std::string yielded_cause_;  ///< of the report that another node's rank prints
  WatchHooks hooks_;
  std::mutex report_mutex_;
  std::optional<FailureReport> report_;
  Heartbeats heartbeats_;          ///< the thread's
  bool has_final_status_ = false;  ///< the thread's; after its end the destructor's
  std::thread thread_;
};

}  // namespace lockstep::comm
