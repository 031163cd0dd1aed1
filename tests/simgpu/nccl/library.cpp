#include "tests/simgpu/nccl/library.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "tests/simgpu/operation.h"

namespace simgpu::nccl {

Library& Library::instance() {
  static Library library;
  return library;
}

ncclComm_t Library::add(CommunicatorPtr rank) {
  const std::lock_guard lock(mutex_);
  const auto handle = reinterpret_cast<ncclComm_t>(rank.get());
  all_.emplace(handle, std::move(rank));
  return handle;
}

CommunicatorPtr Library::find(ncclComm_t handle) {
  const std::lock_guard lock(mutex_);
  require(handle != nullptr, ncclInvalidArgument, "the communicator is null");
  const auto found = all_.find(handle);
  if (found == all_.end()) {
    report_mistake("NCCL communicator", "a call with something that is no communicator of this process");
  }
  const Communicator::Life life = found->second->life();
  if (life == Communicator::Life::destroyed || life == Communicator::Life::aborted) {
    report_mistake("NCCL communicator",
                   fmt::format("rank {} uses a communicator after {}", found->second->rank(),
                               life == Communicator::Life::aborted ? "ncclCommAbort" : "ncclCommDestroy"));
  }
  return found->second;
}

bool Library::has_other_rank_of(const Communicator& rank) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(all_, [&](const auto& entry) {
    const Communicator& other = *entry.second;
    return &other != &rank && other.unique_id() == rank.unique_id() &&
           other.life() == Communicator::Life::in_use;
  });
}

std::string Library::last_error() {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

void Library::set_last_error(const std::string& text) {
  const std::lock_guard lock(mutex_);
  last_error_ = text;
}

Stay::Stay(Communicator& rank, const char* function) : rank_(rank) {
  int nobody = 0;
  if (rank_.thread_inside.compare_exchange_strong(nobody, gettid())) return;
  report_mistake("NCCL threads",
                 fmt::format("{} on rank {} while thread {} is in another call on the same communicator: one "
                             "thread at a time",
                             function, rank_.rank(), nobody));
}

Stay::~Stay() {
  rank_.thread_inside = 0;
}

void require_ready(Communicator& rank) {
  const ncclResult_t state = rank.blocking() ? rank.wait() : rank.state();
  require(state != ncclInProgress, ncclInvalidArgument,
          "the previous call on this communicator is in progress: poll ncclCommGetAsyncError until it gives "
          "ncclSuccess");
  require(state == ncclSuccess, state, rank.last_error());
}

void require(bool condition, ncclResult_t result, const std::string& text) {
  if (!condition) throw Failure(result, text);
}

}  // namespace simgpu::nccl
