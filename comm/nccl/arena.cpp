#include "comm/nccl/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/cuda/handles.h"

namespace lockstep::comm {
namespace {

/// How long the end of an arena may take that a peer holds up.
constexpr Seconds longest_deregistration{10};

class NcclArena final : public Arena {
 public:
  NcclArena(const void* owner, std::uint32_t number, const NcclMemory& memory, DType dtype,
            std::int64_t elements, std::weak_ptr<NcclArenas> home)
      : Arena({owner, number}, memory.data(), dtype, elements), memory_(memory), home_(std::move(home)) {}
  ~NcclArena() override {
    if (const auto home = home_.lock()) home->give_back(memory_);
  }

 private:
  const NcclMemory& memory_;
  std::weak_ptr<NcclArenas> home_;  ///< goes with the communicator
};

}  // namespace

NcclMemory::NcclMemory(const NcclFunctions& nccl, NcclGroup& group, std::size_t bytes, bool as_window,
                       cudaStream_t stream, const Deadline& deadline)
    : nccl_(nccl), group_(group) {
  void* memory = nullptr;
  bytes = std::max<std::size_t>(bytes, 1);
  const ncclResult_t result = nccl_.allocate(&memory, bytes);
  if (result != ncclSuccess) {
    throw DeviceError(
        fmt::format("cuda: {} bytes for an arena: {}; use a smaller model or fewer processes on this GPU",
                    bytes, nccl_.error_string(result)));
  }
  data_ = static_cast<std::byte*>(memory);
  kernels::check(cudaMemsetAsync(memory, 0, bytes, stream), "clearing an arena");
  kernels::check(cudaStreamSynchronize(stream), "clearing an arena");
  if (!as_window) return;
  group_.make("registering an arena with NCCL", deadline, [&](ncclComm_t communicator) {
    return nccl_.register_window(communicator, memory, bytes, &window_, symmetric_window);
  });
}

NcclMemory::~NcclMemory() {
  if (data_ != nullptr) nccl_.free(data_);
}

void NcclMemory::deregister(const Deadline& deadline) {
  if (window_ == nullptr) return;
  group_.make("taking an arena back from NCCL", deadline, [&](ncclComm_t communicator) {
    return nccl_.deregister_window(communicator, std::exchange(window_, nullptr));
  });
}

std::unique_ptr<Arena> NcclArenas::allocate(DType dtype, std::int64_t elements, bool as_window,
                                            cudaStream_t stream, const Deadline& deadline) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  const NcclMemory& memory = memory_.emplace_back(nccl_, group_, bytes, as_window, stream, deadline);
  return std::make_unique<NcclArena>(owner_, ++arenas_, memory, dtype, elements, weak_from_this());
}

void NcclArenas::give_back(const NcclMemory& memory) noexcept {
  if (std::uncaught_exceptions() > 0 || failed_()) return;
  const auto at = std::ranges::find_if(memory_, [&](const NcclMemory& held) { return &held == &memory; });
  if (at == memory_.end()) return;
  try {
    at->deregister(Deadline::in(longest_deregistration));
    memory_.erase(at);
  } catch (const CommError&) {
    // The group has failed just now: the communicator's end frees it.
  }
}

void NcclArenas::deregister_all(const Deadline& deadline) {
  for (NcclMemory& memory : memory_) memory.deregister(deadline);
}

void NcclArenas::abandon_all() noexcept {
  for (NcclMemory& memory : memory_) memory.abandon();
}

}  // namespace lockstep::comm
