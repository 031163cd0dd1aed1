#include "comm/staged/staged_communicator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/base/deadline.h"
#include "kernels/device.h"

namespace lockstep::comm {
namespace {

class StagedArena final : public Arena {
 public:
  /// `on_host`: the inner group's arena; null in a group of one.
  StagedArena(const void* owner, std::uint32_t number, std::unique_ptr<kernels::Memory> memory, DType dtype,
              std::int64_t elements, std::unique_ptr<Arena> on_host, kernels::Device& device)
      : Arena({owner, number}, static_cast<std::byte*>(memory->data()), dtype, elements),
        memory_(std::move(memory)),
        on_host_(std::move(on_host)) {
    if (on_host_ != nullptr) pinned_ = device.pin({on_host_->data(), on_host_->bytes()});
  }

  const Arena* on_host() const { return on_host_.get(); }

 private:
  std::unique_ptr<kernels::Memory> memory_;
  std::unique_ptr<Arena> on_host_;
  std::unique_ptr<kernels::Memory> pinned_;  ///< on_host_'s, as long as it is there
};

ArenaRange on_host(const ArenaRange& range) {
  return {.arena = static_cast<const StagedArena*>(range.arena)->on_host(),
          .first = range.first,
          .count = range.count};
}

}  // namespace

StagedCommunicator::StagedCommunicator(std::unique_ptr<Communicator> inner, kernels::Device& device)
    : DecoratedCommunicator(std::move(inner)), device_(device) {}

std::unique_ptr<Arena> StagedCommunicator::allocate_arena(DType dtype, std::int64_t elements) {
  std::unique_ptr<Arena> on_host;
  if (world().size > 1) on_host = inner().allocate_arena(dtype, elements);
  auto memory = device_.allocate(static_cast<std::size_t>(elements) * size_of(dtype));
  return std::make_unique<StagedArena>(this, ++arenas_, std::move(memory), dtype, elements,
                                       std::move(on_host), device_);
}

template <class Exchange>
ExchangeTiming StagedCommunicator::stage(std::span<const ArenaRange> sent,
                                         std::span<const ArenaRange> received, kernels::Stream& stream,
                                         Exchange exchange) {
  if (world().size == 1) {
    inner().barrier();  // throws after an abort
    return {};
  }
  stream.synchronize();  // for what is sent to be there, which is compute's time
  const auto start = Clock::now();
  for (const ArenaRange& range : sent) {
    device_.copy_to_host(on_host(range).data(), range.data(), range.bytes(), stream);
  }
  // No peer touches our arena on the host until we have joined the exchange.
  stream.synchronize();
  ExchangeTiming timing = exchange();
  for (const ArenaRange& range : received) {
    device_.copy_to_device(range.data(), on_host(range).data(), range.bytes(), stream);
  }
  stream.synchronize();
  const std::int64_t taken =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  timing.transfer_ns = std::max<std::int64_t>(taken - timing.skew_ns, 0);
  return timing;
}

ExchangeTiming StagedCommunicator::all_reduce(std::span<const ArenaRange> ranges, ExchangeLabel label,
                                              kernels::Stream& stream) {
  check_summable_ranges(ranges, this, "all_reduce");
  return stage(ranges, ranges, stream, [&] {
    on_host_.clear();
    for (const ArenaRange& range : ranges) on_host_.push_back(on_host(range));
    return inner().all_reduce(on_host_, label, stream);
  });
}

ExchangeTiming StagedCommunicator::reduce_scatter(const ArenaRange& range, ExchangeLabel label,
                                                  kernels::Stream& stream) {
  check_summable_ranges(std::span(&range, 1), this, "reduce_scatter");
  const ArenaRange own = own_shard(range);
  return stage(std::span(&range, 1), std::span(&own, 1), stream,
               [&] { return inner().reduce_scatter(on_host(range), label, stream); });
}

ExchangeTiming StagedCommunicator::all_gather(const ArenaRange& range, ExchangeLabel label,
                                              kernels::Stream& stream) {
  check_ranges(std::span(&range, 1), this, "all_gather");
  const ArenaRange own = own_shard(range);
  return stage(std::span(&own, 1), std::span(&range, 1), stream,
               [&] { return inner().all_gather(on_host(range), label, stream); });
}

/// Whole shards cross the bus, which is no slow link.
ExchangeTiming StagedCommunicator::all_gather_filled(const ArenaRange& range, ExchangeLabel label,
                                                     kernels::Stream& stream) {
  check_ranges(std::span(&range, 1), this, "all_gather_filled");
  const ArenaRange own = own_shard(range);
  return stage(std::span(&own, 1), std::span(&range, 1), stream,
               [&] { return inner().all_gather_filled(on_host(range), label, stream); });
}

}  // namespace lockstep::comm
