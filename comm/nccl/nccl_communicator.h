#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/decorated_communicator.h"
#include "comm/nccl/group.h"
#include "comm/nccl/progress.h"

namespace lockstep::comm {

/// Sums by NCCL on the GPUs. A collective returns once it is on its stream, with a timing of zeros, which
/// `take_timing` tells once it is done; `wait` notices what a stream cannot tell: a lost peer, an error of
/// NCCL's, a deadline. Failures are agreed on through the inner group; then every rank aborts its own
/// communicator, from a thread that is in no call of NCCL's, so that no kernel waits for ever.
class NcclCommunicator final : public DecoratedCommunicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> inner, kernels::Device& device, Seconds timeout);
  ~NcclCommunicator() override;

  std::string_view backend() const override { return "nccl"; }
  bool stream_ordered() const override { return world().size > 1; }
  bool tells_skew() const override { return world().size == 1; }
  std::string obstacle_to_graphs() const override;
  std::unique_ptr<Arena> allocate_arena(DType dtype, std::int64_t elements) override;
  ExchangeTiming all_reduce(std::span<const ArenaRange> ranges, ExchangeLabel label,
                            kernels::Stream& stream) override;
  ExchangeTiming reduce_scatter(const ArenaRange& range, ExchangeLabel label,
                                kernels::Stream& stream) override;
  ExchangeTiming all_gather(const ArenaRange& range, ExchangeLabel label, kernels::Stream& stream) override;
  void wait_for_exchange(kernels::Stream& stream, kernels::Event& event) override;
  ExchangeTiming take_timing() override { return progress_->take_timing(); }
  void wait(kernels::Event& event) override;
  void watch(WatchHooks hooks) override;

 private:
  /// Puts `calls(communicator, stream)` on the stream as one group of NCCL's, which together are one
  /// exchange.
  template <class Calls>
  ExchangeTiming exchange(std::string_view kind, ExchangeLabel label, kernels::Stream& stream, Calls calls);
  /// `call(shard, rank)` for each rank that has a shard of the range.
  template <class Call>
  ncclResult_t for_each_shard(const ArenaRange& range, Call call) const;
  /// NCCL's own reduce-scatter and all-gather want as many elements on every rank.
  bool has_equal_shards(const ArenaRange& range) const {
    return range.bytes() % (cache_line * static_cast<std::size_t>(world().size)) == 0;
  }
  Deadline deadline() const { return Deadline::in(timeout_); }
  ncclUniqueId agree_on_id();
  std::optional<std::string> problem(const Deadline& deadline);
  [[noreturn]] void fail(const std::string& reason);
  [[noreturn]] void fail_here(const std::string& reason);
  void leave(const std::string& reason);
  void end_group() noexcept;
  std::string first_cause(const std::string& reason);
  void close();

  const NcclFunctions& nccl_;
  const Seconds timeout_;
  std::unique_ptr<kernels::Stream> own_stream_;
  std::shared_ptr<NcclProgress> progress_;
  bool spans_hosts_ = false;  ///< as NCCL sees them
  std::optional<NcclGroup> group_;
  std::shared_ptr<NcclArenas> arenas_;
};

}  // namespace lockstep::comm
