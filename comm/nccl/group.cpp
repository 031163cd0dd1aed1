#include "comm/nccl/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "comm/polling.h"
#include "kernels/base/error.h"
#include "kernels/cuda/handles.h"

namespace lockstep::comm {
namespace {

/// How long the end of an arena may take that a peer holds up.
constexpr Seconds longest_deregistration{10};
constexpr std::string_view registering = "registering an arena with NCCL";

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

NcclGroup::NcclGroup(const NcclFunctions& nccl, ncclUniqueId id, int rank, int ranks,
                     std::function<bool()> peer_failed)
    : nccl_(nccl), peer_failed_(std::move(peer_failed)) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  begun_ = nccl_.init_rank(&communicator_, ranks, id, rank, &config);
}

NcclGroup::~NcclGroup() {
  abort();
}

void NcclGroup::rendezvous(const Deadline& deadline) {
  finish("NCCL's rendezvous", deadline, begun_);
  has_met_ = true;
}

void NcclGroup::finish(std::string_view what, const Deadline& deadline, ncclResult_t result) {
  // A call may succeed whose work has only begun: the state decides.
  if (result == ncclSuccess) result = poll_state();
  for (Backoff backoff; result == ncclInProgress; result = poll_state()) {
    if (peer_failed_()) throw CommError(fmt::format("{} ended: the group has failed", what));
    if (deadline.passed()) throw CommError(fmt::format("{} was not ready within --timeout", what));
    backoff.pause();
  }
  if (result != ncclSuccess) refuse(what, result);
}

/// Before the ranks have met, a system that refuses is this rank's: no room for shared memory, no network.
/// Later it is mostly a connection.
void NcclGroup::refuse(std::string_view what, ncclResult_t result) {
  const std::string text = fmt::format("{}: {}", what, message_of(result));
  const bool is_of_peers = result == ncclRemoteError || (result == ncclSystemError && has_met_);
  if (is_of_peers || peer_failed_()) throw CommError(text);
  kernels::check_gpu(what);
  if (has_met_) throw DeviceError(text);
  throw DeviceError(text +
                    "; a container needs room in /dev/shm (docker run --shm-size=1g), and --backend host "
                    "goes without NCCL");
}

ncclResult_t NcclGroup::poll_state() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = enter([&](ncclComm_t own) { return nccl_.get_async_error(own, &state); });
  return asked == ncclSuccess ? state : asked;
}

std::string NcclGroup::error() {
  const ncclResult_t state = poll_state();
  return state == ncclSuccess || state == ncclInProgress ? std::string() : message_of(state);
}

std::string NcclGroup::message_of(ncclResult_t result) {
  const std::lock_guard lock(mutex_);
  if (is_aborted_) return "the group was aborted";
  const std::string_view detail = nccl_.last_error(communicator_);  // may be null: NCCL does not use it
  return fmt::format("NCCL: {}{}{}; NCCL_DEBUG=WARN in the environment tells more",
                     nccl_.error_string(result), detail.empty() ? "" : ": ", detail);
}

void NcclGroup::abort() noexcept {
  const std::lock_guard lock(mutex_);
  is_aborted_ = true;
  if (communicator_ != nullptr) nccl_.abort(std::exchange(communicator_, nullptr));
}

void NcclGroup::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  is_aborted_ = true;
  communicator_ = nullptr;
}

void NcclGroup::close(const Deadline& deadline) {
  make("NCCL's end", deadline, nccl_.finalize);
  const std::lock_guard lock(mutex_);
  nccl_.destroy(std::exchange(communicator_, nullptr));
}

NcclMemory::NcclMemory(const NcclFunctions& nccl, NcclGroup& group, std::size_t bytes)
    : nccl_(nccl), group_(group), bytes_(std::max<std::size_t>(bytes, 1)) {
  void* memory = nullptr;
  const ncclResult_t result = nccl_.allocate(&memory, bytes_);
  if (result != ncclSuccess) {
    throw DeviceError(
        fmt::format("cuda: {} bytes for an arena: {}; use a smaller model or fewer processes on this GPU",
                    bytes_, nccl_.error_string(result)));
  }
  data_ = static_cast<std::byte*>(memory);
}

void NcclMemory::prepare(bool as_window, cudaStream_t stream, const Deadline& deadline) {
  kernels::check(cudaMemsetAsync(data_, 0, bytes_, stream), "clearing an arena");
  kernels::check(cudaStreamSynchronize(stream), "clearing an arena");
  if (as_window) {
    group_.make(registering, deadline, [&](ncclComm_t communicator) {
      return nccl_.register_window(communicator, data_, bytes_, &window_, symmetric_window);
    });
  }
  if (window_ != nullptr) return;
  group_.make(registering, deadline, [&](ncclComm_t communicator) {
    return nccl_.register_buffer(communicator, data_, bytes_, &registration_);
  });
}

NcclMemory::~NcclMemory() {
  if (data_ != nullptr) nccl_.free(data_);
}

void NcclMemory::deregister(const Deadline& deadline) {
  if (window_ == nullptr && registration_ == nullptr) return;
  group_.make("taking an arena back from NCCL", deadline, [&](ncclComm_t communicator) {
    if (window_ != nullptr) return nccl_.deregister_window(communicator, std::exchange(window_, nullptr));
    return nccl_.deregister_buffer(communicator, std::exchange(registration_, nullptr));
  });
}

std::unique_ptr<Arena> NcclArenas::allocate(DType dtype, std::int64_t elements, bool as_window,
                                            cudaStream_t stream, const Deadline& deadline) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  NcclMemory& memory = memory_.emplace_back(nccl_, group_, bytes);
  memory.prepare(as_window, stream, deadline);
  return std::make_unique<NcclArena>(owner_, ++arenas_, memory, dtype, elements, weak_from_this());
}

void NcclArenas::give_back(const NcclMemory& memory) noexcept {
  if (std::uncaught_exceptions() > 0 || failed_()) return;
  const auto at = std::ranges::find_if(memory_, [&](const NcclMemory& held) { return &held == &memory; });
  if (at == memory_.end()) return;
  try {
    at->deregister(Deadline::in(longest_deregistration));
    memory_.erase(at);
  } catch (const Error&) {
    // The group or the GPU has failed just now: the communicator's end frees it.
  }
}

void NcclArenas::deregister_all(const Deadline& deadline) {
  for (NcclMemory& memory : memory_) memory.deregister(deadline);
}

void NcclArenas::abandon_all() noexcept {
  for (NcclMemory& memory : memory_) memory.abandon();
}

}  // namespace lockstep::comm
