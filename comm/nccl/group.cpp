#include "comm/nccl/group.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/base/error.h"

namespace lockstep::comm {

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

void NcclGroup::finish(std::string_view what, const Deadline& deadline, ncclResult_t result) {
  for (Backoff pause; result == ncclInProgress; result = look()) {
    if (peer_failed_()) throw CommError(fmt::format("{} ended: the group has failed", what));
    if (deadline.passed()) throw CommError(fmt::format("{} was not ready within --timeout", what));
    pause.take();
  }
  if (result != ncclSuccess) throw CommError(fmt::format("{}: {}", what, words(result)));
}

ncclResult_t NcclGroup::look() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = enter([&](ncclComm_t own) { return nccl_.get_async_error(own, &state); });
  return asked == ncclSuccess ? state : asked;
}

std::string NcclGroup::error() {
  const ncclResult_t state = look();
  return state == ncclSuccess || state == ncclInProgress ? std::string() : words(state);
}

std::string NcclGroup::words(ncclResult_t result) {
  const std::lock_guard lock(mutex_);
  if (communicator_ == nullptr) return "the group was aborted";
  const std::string_view detail = nccl_.last_error(communicator_);
  return fmt::format("NCCL: {}{}{}", nccl_.error_string(result), detail.empty() ? "" : ": ", detail);
}

void NcclGroup::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (communicator_ != nullptr) nccl_.abort(std::exchange(communicator_, nullptr));
}

void NcclGroup::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  communicator_ = nullptr;
}

void NcclGroup::close(const Deadline& deadline) {
  make("NCCL's end", deadline, nccl_.finalize);
  const std::lock_guard lock(mutex_);
  nccl_.destroy(std::exchange(communicator_, nullptr));
}

}  // namespace lockstep::comm
