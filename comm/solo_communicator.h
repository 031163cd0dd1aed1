#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/arena.h"
#include "comm/communicator.h"
#include "kernels/base/error.h"

namespace lockstep::comm {

/// A group of one rank: opens nothing, and every collective returns at once.
class SoloCommunicator final : public Communicator {
 public:
  explicit SoloCommunicator(const World& world) : world_(world) {}

  const World& world() const override { return world_; }
  std::string_view backend() const override { return "solo"; }

  std::unique_ptr<Arena> allocate_arena(DType dtype, std::int64_t elements) override {
    return std::make_unique<HeapArena>(this, ++arenas_, dtype, elements,
                                       HeapArena::allocate(dtype, elements));
  }

  ExchangeTiming all_reduce(std::span<const ArenaRange> ranges, ExchangeLabel, kernels::Stream&) override {
    check_summable_ranges(ranges, this, "all_reduce");
    throw_if_aborted();
    return {};
  }
  ExchangeTiming reduce_scatter(const ArenaRange& range, ExchangeLabel, kernels::Stream&) override {
    check_summable_ranges(std::span(&range, 1), this, "reduce_scatter");
    throw_if_aborted();
    return {};
  }
  ExchangeTiming all_gather(const ArenaRange& range, ExchangeLabel, kernels::Stream&) override {
    check_ranges(std::span(&range, 1), this, "all_gather");
    throw_if_aborted();
    return {};
  }
  void all_reduce_sum(std::span<double>) override { throw_if_aborted(); }
  void broadcast(std::span<std::byte>, int) override { throw_if_aborted(); }
  std::vector<std::string> all_gather(std::string_view mine) override {
    throw_if_aborted();
    return {std::string(mine)};
  }
  void barrier() override { throw_if_aborted(); }
  void abort(std::string_view) noexcept override { aborted_ = true; }
  bool failed() const noexcept override { return aborted_; }

 private:
  void throw_if_aborted() const {
    if (aborted_) throw CommError("the run was aborted");
  }

  World world_;
  std::uint32_t arenas_ = 0;
  std::atomic<bool> aborted_ = false;
};

}  // namespace lockstep::comm
