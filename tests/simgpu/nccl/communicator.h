#pragma once

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/simgpu/nccl/faults.h"
#include "tests/simgpu/nccl/segment.h"

namespace simgpu::nccl {

/// One rank of a communicator: what an ncclComm_t points to. It is kept after its end, so that a late use is
/// told from a stray pointer.
class Communicator {
 public:
  enum class Life { in_use, finalized, destroyed, aborted };

  Communicator(const std::string& unique_id, int rank, int ranks, int device, bool blocking);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int device() const { return device_; }
  bool blocking() const { return blocking_; }
  /// Once all have joined.
  bool spans_hosts() const;
  /// Whether a window is given at all: since 2.29 only to GPUs of one host that are fully connected.
  bool has_windows() const;
  const std::string& unique_id() const { return unique_id_; }
  const Segment& segment() const { return *segment_; }
  Life life() const { return life_; }
  bool aborted() const { return life_ == Life::aborted; }

  /// Begins what all ranks do together outside of streams; `poll` tells when it is done, and then runs
  /// `deliver`.
  void begin(const Setup& setup, std::function<void()> deliver = {});
  /// Whether the call that began it answers ncclSuccess all the same, as NCCL's registration of a window does
  /// since 2.28.
  bool answers_early();
  /// `enqueue` runs at once, or, as a non-blocking communicator may do, in a later poll.
  ncclResult_t launch(std::function<void()> enqueue);
  /// One look at what is under way: the state that ncclCommGetAsyncError gives.
  ncclResult_t poll();
  /// What the last poll gave.
  ncclResult_t state() const;
  /// For blocking communicators: polls until it is done, asleep between.
  ncclResult_t wait();

  /// The first error stays; collectives end only by an abort.
  void fail(ncclResult_t result, const std::string& text);
  std::string last_error() const;
  void set_last_error(const std::string& text);

  void end(Life how);

  /// Order of its collectives: those outside of graphs run in the order in which they were enqueued, one at a
  /// time, whatever streams they are on.
  std::uint64_t next_ticket() { return tickets_++; }
  bool may_begin(std::optional<std::uint64_t> ticket) const;
  /// Their number, the same on all ranks.
  std::uint64_t collective_begins(std::optional<std::uint64_t> ticket);
  void collective_ends() { busy_ = false; }
  /// Stages of data that this rank has been through.
  std::uint64_t chunks_done = 0;

  std::atomic<int> pending{0};           ///< collectives enqueued and not done
  std::atomic<int> graph_references{0};  ///< collectives in graphs that live
  std::atomic<int> windows{0};
  std::atomic<int> thread_inside{0};  ///< its id; 0: none

 private:
  bool setup_is_done();
  bool has_arrived();
  void check_same_setup(int peer, const Setup& own) const;
  void check_devices() const;

  const std::string unique_id_;
  const int rank_;
  const int ranks_;
  const int device_;
  const bool blocking_;
  std::optional<Segment> segment_;
  std::atomic<Life> life_ = Life::in_use;

  mutable std::mutex mutex_;
  std::atomic<ncclResult_t> error_ = ncclSuccess;
  std::string last_error_;
  Polls polls_;
  int polls_left_ = 0;
  bool in_setup_ = false;
  std::uint64_t setups_ = 0;
  std::vector<std::function<void()>> deferred_;

  std::uint64_t tickets_ = 0;
  std::uint64_t tickets_begun_ = 0;
  std::uint64_t collectives_ = 0;
  std::atomic<bool> busy_ = false;
};

}  // namespace simgpu::nccl
