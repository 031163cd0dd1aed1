#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "kernels/cuda/handles.h"

namespace lockstep::comm {

/// Which all-reduces were put on a stream and which of them are done: what reports tell. Neither beginning
/// nor looking allocates.
class NcclProgress {
 public:
  NcclProgress();

  void begins(ExchangeLabel label);
  /// The one that began last is on `stream`.
  void is_enqueued(cudaStream_t stream);
  /// Whether a CUDA graph holds one of them.
  bool has_captured() const;
  /// Takes note of what is done; true when that is more than the last time.
  bool look();
  /// "NCCL all-reduce 17 (bucket 0, fc1.weight)", counted from 1: the first that is not done, or else the
  /// last one.
  std::string current() const;
  /// The one that began last.
  std::string newest() const;
  /// Whether a rank whose watchdog said `where` has yet to begin our current one.
  bool is_ahead_of(std::string_view where) const;
  /// For the watchdog: "in" or "after" it; empty before the first. No call of CUDA.
  std::string describe() const;

 private:
  /// More than a step has buckets; with more under way the oldest are forgotten.
  static constexpr std::size_t remembered = 256;

  struct Entry {
    kernels::EventHandle done;
    bool has_event = false;
    int bucket = -1;
    std::array<char, 128> first_parameter{};
    std::size_t length = 0;
  };

  std::string name_of(std::uint64_t number) const;
  std::uint64_t shown() const;

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::uint64_t begun_ = 0;
  std::uint64_t enqueued_ = 0;
  std::uint64_t done_ = 0;
  bool has_captured_ = false;
};

}  // namespace lockstep::comm
