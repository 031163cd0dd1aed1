#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/host/node_ranks.h"
#include "comm/host/sum_tree.h"
#include "comm/watch/watchdog.h"

namespace lockstep::comm {

/// Ranks of one node that exchange through memory which they share. A large all-reduce works in place: rank r
/// sums slice r straight from all arenas into all arenas, between two rounds. Everything else goes through
/// mailboxes in pieces, one round for each piece.
class HostCommunicator final : public Communicator {
 public:
  /// Meets the other ranks. UsageError when they are not all on this node.
  HostCommunicator(const World& world, const CommOptions& options);

  const World& world() const override { return world_; }
  std::string_view backend() const override { return "host"; }
  std::span<std::byte> allocate_arena(std::size_t bytes) override;
  ExchangeTiming all_reduce(std::size_t offset, std::size_t count, DType dtype, ExchangeLabel label,
                            kernels::Stream& stream) override;
  void all_reduce_sum(std::span<double> values) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  std::vector<std::string> all_gather(std::string_view mine) override;
  void barrier() override;
  void abort(std::string_view reason) noexcept override;
  bool failed() const noexcept override { return node_.shared().aborted(); }
  void watch(WatchHooks hooks) override { watchdog_.set_hooks(std::move(hooks)); }
  std::optional<FailureReport> failure_report() override;

 private:
  template <class T>
  void all_reduce_in_arena(std::size_t offset, std::size_t count);
  template <class T>
  void sum_slice_in_place(std::size_t offset, std::size_t begin, std::size_t end);
  template <class T>
  void sum_through_mailboxes(std::span<T> values);

  World world_;
  NodeRanks node_;
  SumTree tree_;
  Watchdog watchdog_;
};

}  // namespace lockstep::comm
