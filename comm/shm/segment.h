#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "comm/shm/mapping.h"
#include "comm/shm/status_slot.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// One rank's part of the shared control area: a cache line that it alone writes (but for `sleepers`) and the
/// others watch.
struct alignas(64) RankSlot {
  std::atomic<std::uint32_t> round;     ///< rounds that this rank has arrived at; a futex word
  std::atomic<std::uint32_t> sleepers;  ///< ranks that sleep on `round`
  /// What the rank is doing in an even and an odd round, so that calls that do not match are noticed.
  std::array<std::atomic<std::uint32_t>, 2> signature;
  std::atomic<std::uint32_t> left;  ///< 1: it left in order and arrives at no further round
};

/// The memory that the ranks of a node share: a memfd that holds the control area, two mailboxes per rank
/// and, as they are asked for, arenas of every rank. Its first rank creates it; the others map the descriptor
/// they are handed.
class Segment {
 public:
  static constexpr std::size_t mailbox_bytes = std::size_t{64} << 10;

  static Segment create(int ranks, std::uint64_t nonce);
  /// CommError when the memory does not look like a segment for so many ranks.
  static Segment open(UniqueFd memfd, int ranks);

  int fd() const { return memfd_.get(); }
  int ranks() const { return ranks_; }
  std::uint64_t nonce() const;

  RankSlot& rank_slot(int rank) const;
  /// Rank `rank`'s mailbox of an even or odd round.
  std::span<std::byte> mailbox(int rank, std::uint32_t round) const;

  /// Where the next arenas of `stride` bytes (whole pages) for each rank begin in the file. All ranks claim
  /// the same in the same order; the first one then makes room, before any maps them.
  std::size_t claim_arenas(std::size_t stride);
  void make_room() const;

  /// Tells which cores a rank may use; before the meeting ends.
  void publish_affinity(int rank);
  /// Cores that at least one rank may use.
  int usable_cores() const;

  /// What a rank does, in its words, for the others.
  StatusSlot& status_slot(int rank) const;

  /// The first caller's reason stays; every wait of every rank ends.
  void abort(std::string_view reason) noexcept;
  bool aborted() const noexcept;
  std::string abort_reason() const;

 private:
  struct Control;
  Segment(UniqueFd memfd, int ranks);
  Control& control() const;

  UniqueFd memfd_;
  int ranks_;
  Mapping control_;
  std::size_t end_;  ///< of what is claimed
};

}  // namespace lockstep::comm
