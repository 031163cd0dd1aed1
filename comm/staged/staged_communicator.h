#pragma once

#include <memory>

#include "comm/decorated_communicator.h"

namespace lockstep::comm {

/// `--backend host` or `mpi` on a GPU: the arena is the device's, and an all-reduce goes through the arena
/// that the group has on the host, pinned: copied out, summed there, copied back. The call returns when the
/// sum is on its way back in the stream's order. A group of one copies nothing.
class StagedCommunicator final : public DecoratedCommunicator {
 public:
  /// `device` outlives this.
  StagedCommunicator(std::unique_ptr<Communicator> inner, kernels::Device& device);

  std::span<std::byte> allocate_arena(std::size_t bytes) override;
  ExchangeTiming all_reduce(std::size_t offset, std::size_t count, DType dtype, ExchangeLabel label,
                            kernels::Stream& stream) override;

 private:
  kernels::Device& device_;
  std::unique_ptr<kernels::Memory> arena_;
  std::span<std::byte> on_host_;
  std::unique_ptr<kernels::Memory> pinned_;  ///< the group's arena, as long as it is there
};

}  // namespace lockstep::comm
