#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/make_communicator.h"
#include "comm/reduce/reduce.h"
#include "comm/shm/node_ranks.h"
#include "comm/watchdog/watchdog.h"

namespace lockstep::comm {

/// Ranks of one node that exchange through memory which they share. A large all-reduce works in place: rank r
/// sums shard r of each range straight from all arenas into all arenas, between two rounds; reduce_scatter
/// and all_gather do one phase of that each. Everything else goes through mailboxes in pieces, one round for
/// each piece.
class ShmCommunicator final : public Communicator {
 public:
  /// Local rendezvous with the other ranks. UsageError when there are too many for one node.
  ShmCommunicator(const World& world, const CommOptions& options);

  const World& world() const override { return world_; }
  std::string_view backend() const override { return "host"; }
  std::unique_ptr<Arena> allocate_arena(DType dtype, std::int64_t elements) override;
  ExchangeTiming all_reduce(std::span<const ArenaRange> ranges, ExchangeLabel label,
                            kernels::Stream& stream) override;
  ExchangeTiming reduce_scatter(const ArenaRange& range, ExchangeLabel label,
                                kernels::Stream& stream) override;
  ExchangeTiming all_gather(const ArenaRange& range, ExchangeLabel label, kernels::Stream& stream) override;
  ExchangeTiming all_gather_filled(const ArenaRange& range, ExchangeLabel label,
                                   kernels::Stream& stream) override;
  void all_reduce_sum(std::span<double> values) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  std::vector<std::string> all_gather(std::string_view mine) override;
  void barrier() override;
  void abort(std::string_view reason) noexcept override { node_.abort_by_rank(reason); }
  bool failed() const noexcept override { return node_.aborted(); }
  void watch(WatchHooks hooks) override { watchdog_.set_hooks(std::move(hooks)); }
  std::optional<FailureReport> failure_report() override { return watchdog_.failure_report(); }

 private:
  /// Sums this rank's shard of the range, from all arenas into those of `receivers`.
  void sum_shard(const ArenaRange& range, RankRange receivers);
  /// Copies a part of the own shard, as `part_of` gives it, to all.
  ExchangeTiming gather(Call::Kind kind, const ArenaRange& range, ExchangeLabel label,
                        ArenaRange (*part_of)(const ArenaRange& shard));
  void sum_through_mailboxes(std::span<const ArenaRange> ranges);
  /// Sums the bytes at `offset` of all mailboxes of the round; `sum` gives their number.
  void sum_mailboxes(std::uint32_t round, std::size_t offset, DType dtype, std::span<std::byte> sum);

  World world_;
  NodeRanks node_;
  ReductionTree tree_;
  Watchdog watchdog_;
};

}  // namespace lockstep::comm
