#pragma once

#include <array>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "comm/shm/barrier.h"
#include "comm/shm/call.h"
#include "comm/shm/local_rendezvous.h"
#include "comm/shm/monitor.h"
#include "comm/shm/shared_arena.h"

namespace lockstep::comm {

/// The ranks of one node as a group: the memory that they share, the rounds in which they meet, the
/// collective that this rank is in, and a thread that notices a lost peer and ends every wait of the node.
class NodeRanks {
 public:
  /// Meets the other members. CommError names those who did not come.
  NodeRanks(NodeMembers members, Seconds timeout);
  ~NodeRanks();

  const NodeMembers& members() const { return members_; }
  int size() const { return members_.size(); }
  int index() const { return members_.index; }
  const Segment& shared() const { return group_.segment; }
  Seconds timeout() const { return timeout_; }

  /// A collective lasts as long as its scope; one that an exception ends stays the call that this rank is in.
  class CallScope {
   public:
    explicit CallScope(NodeRanks& node) : node_(node) {}
    ~CallScope() {
      if (std::uncaught_exceptions() == exceptions_) node_.end();
    }
    CallScope(const CallScope&) = delete;
    CallScope& operator=(const CallScope&) = delete;

   private:
    NodeRanks& node_;
    int exceptions_ = std::uncaught_exceptions();
  };

  /// `detail` must be equal on all ranks.
  [[nodiscard]] CallScope begin(Call::Kind kind, std::size_t bytes, std::uint64_t detail = 0,
                                ExchangeLabel label = {});
  /// The same for a collective over ranges of this group's arenas, which must be equal on all ranks.
  [[nodiscard]] CallScope begin(Call::Kind kind, std::span<const ArenaRange> ranges, ExchangeLabel label);
  [[nodiscard]] CallScope begin_allocation(DType dtype, std::int64_t elements);
  const Call& call() const { return call_; }
  /// Of the call up to now, when the last peer was there at `all_here`.
  ExchangeTiming timing(Clock::time_point all_here) const;
  /// From any thread: its number, and "in all-reduce 17 (bucket 0, fc1.weight)" or "after ...".
  std::uint32_t call_number() const;
  std::string describe_call() const;
  Clock::time_point deadline() const;

  /// One round of the members; CommError unless all arrive in the same call.
  void arrive();
  std::uint32_t next_round() const { return barrier_.next(); }

  /// An arena for each member, with its pages. Collective, within a call of its own.
  std::unique_ptr<SharedArena> allocate_arena(DType dtype, std::int64_t elements);

  /// Copies the range from this member's arena into those of the others.
  void copy_to_members(const ArenaRange& range) const;

  /// Ends every wait of the node with `reason`, unless one was there before. From any thread.
  void abort(std::string_view reason) noexcept { group_.segment.abort(reason); }
  /// With this rank named as the one who gives the reason.
  void abort_by_rank(std::string_view reason) noexcept;

 private:
  void end();
  [[noreturn]] void fail(Barrier::Outcome outcome);
  std::string names_of(std::vector<int> indexes) const;

  NodeMembers members_;
  Seconds timeout_;
  LocalGroup group_;
  std::uint32_t arenas_ = 0;
  Barrier barrier_;
  mutable std::mutex call_mutex_;  ///< for the watchdog, against begin and end
  Call call_;
  std::array<char, 128>
      first_parameter_{};  ///< call_'s label: the caller's may go before the watchdog reads it
  std::optional<Monitor> monitor_;
};

}  // namespace lockstep::comm
