#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/shm/barrier.h"
#include "comm/shm/local_rendezvous.h"
#include "comm/shm/monitor.h"
#include "comm/shm/shared_arena.h"
#include "comm/watchdog/watchdog.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// The collective in progress: what it is, for the check that all ranks agree, and for reports.
struct Call {
  enum class Kind : std::uint32_t {
    allocate_arena,
    all_reduce,
    reduce_scatter,
    all_gather,
    all_gather_filled,
    all_reduce_sum,
    broadcast,
    all_gather_texts,
    barrier
  };

  Kind kind = Kind::barrier;
  std::uint32_t number = 0;  ///< of all collectives of the group, from 1
  std::size_t bytes = 0;
  std::uint64_t detail = 0;  ///< of ranges or root; equal on all ranks
  ExchangeLabel label;
  int rounds = 0;            ///< passed so far
  bool in_progress = false;  ///< it has begun and not ended
  Clock::time_point start;
  Clock::time_point all_here;  ///< when the first round passed

  /// Differs, but for accident, between calls or rounds that do not belong together.
  std::uint32_t signature() const;

  /// "all-reduce 17 (bucket 0, fc1.weight)"
  std::string describe() const;
};

/// Why a round failed, as one line that names ranks and call. `ranks` are the missing or disagreeing ones.
std::string explain(Barrier::Outcome outcome, const std::string& ranks, const Call& call, Seconds timeout);

/// The ranks of one node as a group: their shared memory and barrier, the collective that this rank is in,
/// and a thread that ends every wait of the node when a peer is lost.
class NodeRanks final : public NodeStatus {
 public:
  /// Local rendezvous by the deadline, unless `look` throws; `timeout` is that of calls. CommError names the
  /// members that did not come.
  NodeRanks(NodeMembers members, Seconds timeout, Deadline rendezvous, const Look& look = {});
  ~NodeRanks() override;

  const NodeMembers& members() const { return members_; }
  int rank() const override { return members_.rank(); }
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
  std::uint32_t call_number() const override;
  std::string describe_call() const override;
  Clock::time_point deadline() const;

  /// One round of the members; CommError unless all arrive in the same call.
  void arrive();
  std::uint32_t next_round() const { return barrier_.next(); }

  /// Where a call has ranks of other nodes too: gives those of the world that have not come to it.
  void set_ranks_behind(std::function<std::vector<int>()> ranks_behind) {
    ranks_behind_ = std::move(ranks_behind);
  }
  /// Whom to name when `late` ranks, which may wait for others themselves, do not finish the call: ranks that
  /// have not come to it; `late` when none is known.
  std::vector<int> culprits(const std::vector<int>& late) const;

  /// An arena for each member, with its pages. Collective, within a call of its own.
  std::unique_ptr<SharedArena> allocate_arena(DType dtype, std::int64_t elements);

  /// Copies the range from this member's arena into those of the others.
  void copy_to_members(const ArenaRange& range) const;

  void publish_status(std::string_view text) noexcept override;
  std::optional<std::string> read_status(int rank) const override;
  bool has_lost(int rank) const override;

  bool claim_report() noexcept override { return group_.segment.claim_report(); }
  bool aborted() const noexcept override { return group_.segment.aborted(); }
  std::string abort_reason() const override { return group_.segment.abort_reason(); }
  /// Ends every wait of the node with `reason`, unless one was there before. From any thread.
  void abort(std::string_view reason) noexcept { group_.segment.abort(reason); }
  /// The same with this rank named before the reason.
  void abort_by_rank(std::string_view reason) noexcept;

 private:
  void end();
  /// For members that have not come by the first look at them.
  void wait_on();
  void peer_lost(const LocalPeer& peer);
  std::vector<int> ranks_at(std::vector<int> indexes) const;
  [[noreturn]] void fail(Barrier::Outcome outcome, const std::vector<int>& ranks);

  NodeMembers members_;
  Seconds timeout_;
  LocalGroup group_;
  std::uint32_t arenas_ = 0;
  Barrier barrier_;
  std::function<std::vector<int>()> ranks_behind_;
  mutable std::mutex call_mutex_;  ///< for the watchdog, against begin and end
  Call call_;
  /// Of call_'s label: the caller's text may be gone when the watchdog reads it.
  std::array<char, 128> what_{};
  mutable std::mutex lost_mutex_;
  std::vector<int> lost_;  ///< ranks
  std::optional<Monitor> monitor_;
};

}  // namespace lockstep::comm
