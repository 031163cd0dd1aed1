#pragma once

#include <condition_variable>
#include <exception>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tests/simgpu/machine/lock.h"
#include "tests/simgpu/machine/memory.h"
#include "tests/simgpu/machine/node.h"
#include "tests/simgpu/machine/settings.h"
#include "tests/simgpu/machine/trace.h"

namespace simgpu {

/// Runs nodes, one at a time in the whole process, in an order that their waits allow and the policy chooses.
class Executor {
 public:
  Executor(const Settings& settings, const Memory& memory, Trace& trace);
  ~Executor();

  /// Under Policy::eager all that is ready has run on return.
  void add(Lock& lock, NodePtr node);

  /// Returns when these are done; rethrows what an operation threw in the progress thread.
  void run_until_done(Lock& lock, const std::vector<NodePtr>& targets);

  /// Runs at most one operation that the node waits for: so that a host that polls gets there in the end.
  void run_a_step_towards(Lock& lock, const NodePtr& target);

  /// What is not done, of this device.
  std::vector<NodePtr> pending(int device) const;

 private:
  using Nodes = std::vector<NodePtr>;
  /// Nodes by their priority and then in the order of their calls, those before `first` done.
  struct Candidates {
    Nodes nodes;
    std::size_t first = 0;
  };

  Candidates not_done_before(const Nodes& targets) const;
  static Candidates by_priority(const std::map<std::uint64_t, NodePtr>& nodes);
  NodePtr choose(Candidates& candidates);
  bool run_one(Lock& lock, Candidates& candidates);
  bool run_any(Lock& lock);
  void run(Lock& lock, const NodePtr& node);
  void finish(Node& node);
  void run_ready(Lock& lock);
  void open_memory(int device);
  void close_memory();

  void ensure_progress(Lock& lock);
  void make_progress();
  Nodes awaited_elsewhere() const;
  void rethrow_failure();

  Policy policy_;
  std::mt19937_64 random_;
  const Memory& memory_;
  Trace& trace_;
  std::map<std::uint64_t, NodePtr> pending_;
  std::set<const Node*> asked_;  ///< said "not yet" in this round
  std::set<int> open_;           ///< devices whose memory is open
  std::condition_variable changed_;
  bool busy_ = false;  ///< an operation runs

  std::mutex* mutex_ = nullptr;
  std::thread progress_;
  bool leaving_ = false;
  std::exception_ptr failure_;
};

}  // namespace simgpu
