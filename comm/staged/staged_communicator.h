#pragma once

#include <memory>
#include <vector>

#include "comm/decorated_communicator.h"

namespace lockstep::comm {

/// `--backend host` or `mpi` on a GPU: an arena is the device's, and collectives go through one that the
/// inner group has on the host, pinned: copied out, summed there, copied back. A call returns when the result
/// is back, and its transfer is all three. A group of one copies nothing.
class StagedCommunicator final : public DecoratedCommunicator {
 public:
  /// `device` outlives this and its arenas.
  StagedCommunicator(std::unique_ptr<Communicator> inner, kernels::Device& device);

  bool tells_skew() const override { return inner().tells_skew(); }
  std::unique_ptr<Arena> allocate_arena(DType dtype, std::int64_t elements) override;
  ExchangeTiming all_reduce(std::span<const ArenaRange> ranges, ExchangeLabel label,
                            kernels::Stream& stream) override;
  ExchangeTiming reduce_scatter(const ArenaRange& range, ExchangeLabel label,
                                kernels::Stream& stream) override;
  ExchangeTiming all_gather(const ArenaRange& range, ExchangeLabel label, kernels::Stream& stream) override;
  ExchangeTiming all_gather_filled(const ArenaRange& range, ExchangeLabel label,
                                   kernels::Stream& stream) override;

 private:
  /// Copies `sent` to the host, exchanges there, copies `received` back.
  template <class Exchange>
  ExchangeTiming stage(std::span<const ArenaRange> sent, std::span<const ArenaRange> received,
                       kernels::Stream& stream, Exchange exchange);
  ArenaRange own_shard(const ArenaRange& range) const { return shard_of(range, world().rank, world().size); }

  kernels::Device& device_;
  std::uint32_t arenas_ = 0;
  std::vector<ArenaRange> on_host_;  ///< ranges of the call that is made
};

}  // namespace lockstep::comm
