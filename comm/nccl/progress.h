#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/counter.h"

namespace lockstep::comm {

/// Which collective the GPU is in: what reports tell. The GPU counts them itself, so those of a graph's
/// replays count too. Every step makes the same collectives in the same order, which is how a number becomes
/// a kind and a bucket.
class NcclProgress {
 public:
  /// Whether this rank waits in NCCL's meeting for the others.
  void meets(bool now) { meets_ = now; }
  /// Around a collective on `stream`; `kind`: "all-reduce", which lives as long as the program.
  void begins(std::string_view kind, ExchangeLabel label, cudaStream_t stream);
  void ends(cudaStream_t stream);
  /// Whether a CUDA graph holds one of them.
  bool has_captured() const;
  /// True when more are done than the last time.
  bool look();
  /// "NCCL all-reduce 17 (bucket 0, fc1.weight)", counted from 1: the one that the GPU is in, or else was in
  /// last; or NCCL's meeting.
  std::string current() const;
  /// Whether a rank whose watchdog said `where` has yet to begin our current one.
  bool is_ahead_of(std::string_view where) const;
  /// For the watchdog: "in" or "after" it; empty before the first. No call of CUDA.
  std::string describe() const;
  /// Of a group that has failed: from now on all stays as it was.
  void abandon() noexcept;

 private:
  struct Exchange {
    std::string_view kind;
    int bucket;
    std::string first_parameter;
  };

  std::string name_of(std::uint32_t number) const;

  StreamCounter begun_;
  StreamCounter done_;
  std::uint32_t done_before_ = 0;
  std::atomic<bool> meets_ = false;
  mutable std::mutex mutex_;
  std::vector<Exchange> exchanges_;  ///< of a step
  bool has_captured_ = false;
};

}  // namespace lockstep::comm
