#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "comm/watchdog/failure_report.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// Owns a shared, writable mapping of a part of a file.
class Mapping {
 public:
  Mapping() = default;
  /// `offset`: a multiple of the page size. DeviceError when the system refuses.
  Mapping(int fd, std::size_t offset, std::size_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::span<std::byte> bytes_;
};

/// Gives the pages under `bytes` of a shared mapping back to the system, for all processes: they read as
/// zeros.
void discard(std::span<std::byte> bytes) noexcept;

/// Creates the pages under `bytes` and enters them in this process's page table.
void populate(std::span<std::byte> bytes);

/// Sleeps while `word`, which may lie in memory that processes share, holds `expected`, at most this long;
/// may wake for no reason.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds at_most);
void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept;

std::size_t round_to_pages(std::size_t bytes);

/// A line of text in shared memory, from one thread to all others: a sequence lock (Boehm, "Can seqlocks get
/// along with programming language memory models?", MSPC 2012) over two texts, so that readers need no pause
/// of the writer. Zeroed memory is a StatusSlot with an empty text.
class alignas(64) StatusSlot {
 public:
  static constexpr std::size_t most_bytes = most_status_bytes;

  /// By one thread at a time. What is longer is cut.
  void write(std::string_view text) noexcept;
  /// The newest whole text.
  std::string read() const;

 private:
  std::atomic<std::uint32_t> version_;  ///< text version % 2 is whole
  std::array<std::array<std::atomic<char>, most_bytes + 1>, 2> texts_;
};

/// One rank's part of the shared control area: a cache line that it alone writes (but for `sleepers`) and the
/// others watch.
struct alignas(64) RankSlot {
  std::atomic<std::uint32_t> round;     ///< rounds that this rank has arrived at; a futex word
  std::atomic<std::uint32_t> sleepers;  ///< ranks that sleep on `round`
  /// Signature of the rank's call in an even and an odd round, so that calls that do not match are noticed.
  std::array<std::atomic<std::uint32_t>, 2> signature;
  std::atomic<std::uint32_t> left;  ///< 1: it detached and arrives at no further round
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

  /// Publishes which cores a rank may use; before the rendezvous ends.
  void publish_affinity(int rank);
  /// Cores that at least one rank may use.
  int usable_cores() const;

  /// Rank `rank`'s status text.
  StatusSlot& status_slot(int rank) const;

  /// The first caller's reason stays; every wait of every rank ends.
  void abort(std::string_view reason) noexcept;
  bool aborted() const noexcept;
  std::string abort_reason() const;

  /// True for the first caller of all ranks.
  bool claim_report() noexcept;

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
