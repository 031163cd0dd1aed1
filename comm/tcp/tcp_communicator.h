#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/make_communicator.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/shm/node_ranks.h"
#include "comm/tcp/exchange.h"
#include "comm/tcp/link.h"
#include "comm/tcp/mesh.h"
#include "comm/tcp/placement.h"
#include "comm/tcp/store_gather.h"
#include "comm/tcp/store_status.h"
#include "comm/watchdog/watchdog.h"

namespace lockstep::comm {

/// Ranks of several nodes: gradients take the direct exchange over data connections, everything rare goes
/// through the store. The sums have the same bits as on one node.
class TcpCommunicator final : public Communicator {
 public:
  /// Connects to the other ranks by the deadline. CommError names the ranks that did not join.
  TcpCommunicator(const World& world, const CommOptions& options, Rendezvous rendezvous, Deadline deadline);
  ~TcpCommunicator() override;

  const World& world() const override { return world_; }
  std::string_view backend() const override { return "host"; }
  bool crosses_nodes() const override { return true; }
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
  void abort(std::string_view reason) noexcept override { node_->abort_by_rank(reason); }
  bool failed() const noexcept override { return node_->aborted(); }
  void watch(WatchHooks hooks) override { watchdog_->set_hooks(std::move(hooks)); }
  std::optional<FailureReport> failure_report() override { return watchdog_->failure_report(); }

 private:
  /// Tells the others why, when it fails; says what another has told first.
  void connect(const CommOptions& options, Deadline deadline);
  void meet(const CommOptions& options, MeetingWatch& watch, Deadline deadline);
  void start_watching(Deadline deadline);
  /// Without a name: the rendezvous' connection tells when this rank is lost.
  StoreClient connect_again(Deadline deadline) const;
  /// Waits until no rank is in a collective or will start one, so that a closed connection is no loss.
  void leave_together() noexcept;
  /// Runs a collective; whatever ends it ends every wait of every rank, with the first cause.
  template <class Body>
  auto guarded(Body body) -> decltype(body());
  [[noreturn]] void fail(const std::string& reason);
  std::string explain(const PeerTrouble& trouble);

  World world_;
  Rendezvous rendezvous_;
  std::vector<PeerInfo> peers_;
  std::optional<Placement> placement_;
  std::optional<NodeRanks> node_;
  std::vector<Link> links_;
  std::optional<TcpExchange> exchange_;
  std::optional<StoreGather> gather_;
  ReductionTree tree_;
  std::optional<StoreStatus> store_status_;
  std::optional<Watchdog> watchdog_;
  std::optional<AbortListener> listener_;
};

}  // namespace lockstep::comm
