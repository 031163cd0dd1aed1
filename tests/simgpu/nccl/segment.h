#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/base/unique_fd.h"
#include "tests/simgpu/nccl/call.h"

namespace simgpu::nccl {

/// What ranks agree on outside of streams: joining, windows, the end.
struct Setup {
  enum class Kind : int { join, register_window, finalize };
  Kind kind = Kind::join;
  std::size_t bytes = 0;  ///< of a window

  bool operator==(const Setup&) const = default;
};

/// What the others see of a rank. All zero: not there yet.
struct alignas(64) RankSlot {
  std::uint64_t host = 0;  ///< ranks with one host and one device share a GPU
  int device = 0;

  std::atomic<std::uint64_t> setups;    ///< so many it has begun
  std::atomic<std::uint64_t> progress;  ///< of the data, in stages: see collective.h
  /// Of the collective or set-up in progress and the one before: some ranks may still be in that.
  Call calls[2];
  Setup setup_records[2];
};

/// Shared memory of the ranks of one communicator: a line and two mailboxes for each. Whoever comes first
/// makes it; all zero is its first state.
class Segment {
 public:
  static constexpr std::size_t mailbox_bytes = std::size_t{256} << 10;

  /// Failure when another process or object is this rank already, or counts other ranks.
  Segment(const std::string& name, int rank, int ranks);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int ranks() const { return ranks_; }
  RankSlot& line(int rank) const;
  /// Chunks take turns between two mailboxes.
  std::byte* mailbox(int rank, std::uint64_t chunk) const;

  /// From now on nobody new finds it.
  void unlink() const noexcept;

  /// True while the process that joined as `rank` lives. A zombie is dead, which kill(pid, 0) does not see.
  bool is_alive(int rank) const;

  /// Everybody who changes what others wait for rings; a waiter takes `rings` before it looks.
  std::uint32_t rings() const;
  void ring() const noexcept;
  /// Sleeps until somebody rings after `seen`, at most this long.
  void wait_for_ring(std::uint32_t seen, std::chrono::nanoseconds at_most) const;

 private:
  struct Header;
  Header& header() const { return *reinterpret_cast<Header*>(memory_); }

  std::string name_;
  int ranks_;
  lockstep::UniqueFd file_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace simgpu::nccl
