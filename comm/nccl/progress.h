#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "kernels/cuda/handles.h"

namespace lockstep::comm {

/// How often streams, and graphs that are replayed there, have come to a place, to which the last time, and
/// when. The host reads it while the GPU works, also from threads that may not call CUDA.
class StreamCounter {
 public:
  /// More than the exchanges, or waits for them, of two steps, which may be in flight.
  static constexpr std::uint32_t kept_times = 4096;

  struct Value {
    std::uint32_t number = 0;  ///< counted from 1; 0: nowhere yet
    std::uint32_t what = 0;
  };

  /// On the current device.
  StreamCounter();

  /// What is enqueued before this on `stream` is done when the count grows.
  void count(std::uint32_t what, cudaStream_t stream);
  Value value() const;
  /// Nanoseconds by the GPU's clock, of one of the last `kept_times`.
  std::int64_t time_of(std::uint32_t number) const;

  /// Holds the value as it is, and leaves the memory to the end of the process: a GPU that has failed may go
  /// on counting until then.
  void abandon() noexcept;

 private:
  struct Free {
    void operator()(std::uint32_t* word) const noexcept { cudaFree(word); }
  };
  struct FreePinned {
    void operator()(std::uint64_t* word) const noexcept { cudaFreeHost(word); }
  };

  std::unique_ptr<std::uint32_t, Free> count_owner_;
  std::unique_ptr<std::uint64_t, FreePinned> shown_owner_;
  std::uint32_t* count_ = nullptr;      ///< the GPU's own: reading the host's would cost it a trip
  std::uint64_t* shown_ = nullptr;      ///< pinned: the number, above it what; then a ring of times
  std::atomic<std::int64_t> held_{-1};  ///< what was shown, from abandon on
};

/// Which collective the GPU is in: what reports tell. The GPU counts them itself, so those of a graph's
/// replays count too; with the number it shows which of the collectives that this rank knows it is.
class NcclProgress {
 public:
  /// Whether this rank waits in NCCL's rendezvous for the others.
  void set_in_rendezvous(bool now) { in_rendezvous_ = now; }
  /// Around a collective on `stream`; `kind`: "all-reduce".
  void begins(std::string_view kind, ExchangeLabel label, cudaStream_t stream);
  void ends(cudaStream_t stream);
  /// Whether a CUDA graph holds one of them.
  bool has_captured() const;
  /// Around a wait of `stream`, which computes, for some of them.
  void begins_to_wait(cudaStream_t stream) { waiting_.count(0, stream); }
  void ends_waiting(cudaStream_t stream) { waited_.count(0, stream); }
  /// What the exchanges and waits took that are done since the last call, by the GPU's clock. Skew is part of
  /// the transfer: a GPU does not see when its peers come.
  ExchangeTiming take_timing();
  /// True when more are done than the last time.
  bool look();
  /// "NCCL all-reduce 17 (bucket 0, fc1.weight)", counted from 1: the one that the GPU is in, or else was in
  /// last; or NCCL's rendezvous.
  std::string current() const;
  /// Whether a rank whose watchdog said `where` has yet to begin our current one.
  bool is_ahead_of(std::string_view where) const;
  /// For the watchdog: "in" or "after" it; empty before the first. No call of CUDA.
  std::string describe() const;
  /// Of a group that has failed: from now on all stays as it was.
  void abandon() noexcept;

 private:
  /// Of a collective, around its number.
  struct Name {
    std::string kind;
    std::string label;
    bool operator==(const Name&) const = default;
  };

  std::string name_of(StreamCounter::Value at) const;

  StreamCounter begun_;
  StreamCounter done_;
  StreamCounter waiting_;
  StreamCounter waited_;
  std::uint32_t timed_exchanges_ = 0;
  std::uint32_t timed_waits_ = 0;
  std::uint32_t done_before_ = 0;
  std::uint32_t current_ = 0;  ///< in names_, of the collective that is enqueued
  std::atomic<bool> in_rendezvous_ = false;
  mutable std::mutex mutex_;
  std::vector<Name> names_;  ///< of all that this rank has begun
  bool has_captured_ = false;
};

}  // namespace lockstep::comm
