#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/arena.h"
#include "comm/communicator.h"
#include "comm/make_communicator.h"
#include "comm/mpi/session.h"

namespace lockstep::comm {

/// MPI's collectives behind our contract. What differs from `host`: sums are taken in MPI's order (the same
/// bits on every rank and in every run with as many ranks, not those of `host`); a timeout cannot name the
/// missing ranks; and ExchangeTiming has the whole time as transfer and no skew, since telling them apart
/// would cost a barrier. bf16 and f16 are summed in f32 and rounded once. A reduce_scatter sums the whole
/// range on every rank, since MPI's own adds in another order than its all-reduce.
class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const World& world, const CommOptions& options);

  const World& world() const override { return world_; }
  std::string_view backend() const override { return "mpi"; }
  bool crosses_nodes() const override { return spans_nodes(world_, {}); }
  bool tells_skew() const override { return world_.size == 1; }
  std::unique_ptr<Arena> allocate_arena(DType dtype, std::int64_t elements) override;
  ExchangeTiming all_reduce(std::span<const ArenaRange> ranges, ExchangeLabel label,
                            kernels::Stream& stream) override;
  ExchangeTiming reduce_scatter(const ArenaRange& range, ExchangeLabel label,
                                kernels::Stream& stream) override;
  ExchangeTiming all_gather(const ArenaRange& range, ExchangeLabel label, kernels::Stream& stream) override;
  void all_reduce_sum(std::span<double> values) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  std::vector<std::string> all_gather(std::string_view mine) override;
  void barrier() override;
  void abort(std::string_view reason) noexcept override;
  bool failed() const noexcept override { return session_->given_up(); }

 private:
  MpiCall begin(std::string_view kind, ExchangeLabel label = {});
  void sum(const ArenaRange& range, const MpiCall& call);
  void sum(void* values, std::size_t count, MpiNumber type, const MpiCall& call);
  template <class Half>
  void sum_halves(Half* values, std::size_t count, const MpiCall& call);
  void broadcast(std::span<std::byte> bytes, int root, const MpiCall& call);
  void gather(std::span<const std::byte> mine, std::span<std::byte> all, const std::vector<int>& sizes,
              const MpiCall& call);

  World world_;
  Seconds timeout_;
  std::uint32_t arenas_ = 0;
  std::vector<HeapArena::Memory> memory_;  ///< of arenas; outlives MPI, which may still know of it
  std::vector<float> widened_;             ///< a piece of bf16 or f16 values
  std::shared_ptr<MpiSession> session_;
};

}  // namespace lockstep::comm
