#include "tests/simgpu/nccl/communicator.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "tests/simgpu/nccl/failure.h"
#include "tests/simgpu/operation.h"

namespace simgpu::nccl {
namespace {

constexpr std::chrono::milliseconds longest_sleep{20};

/// Ranks with one value are on one host to NCCL: NCCL_HOSTID replaces the host's name whole.
std::uint64_t host_of_this_process() {
  const char* const replaced = std::getenv("NCCL_HOSTID");
  return replaced == nullptr ? 0 : std::hash<std::string>()(replaced) | 1;
}

std::string describe(const Setup& setup) {
  switch (setup.kind) {
    case Setup::Kind::join:
      return "joins the communicator";
    case Setup::Kind::register_window:
      return fmt::format("registers a window of {} bytes", setup.bytes);
    case Setup::Kind::finalize:
      return "finalizes the communicator";
  }
  return "?";
}

}  // namespace

Communicator::Communicator(const std::string& unique_id, int rank, int ranks, int device, bool blocking)
    : unique_id_(unique_id), rank_(rank), ranks_(ranks), device_(device), blocking_(blocking), polls_(rank) {
  if (const char* const network = std::getenv("NCCL_SOCKET_IFNAME"))  // for tests of who sets it
    count_call(fmt::format("NCCL_SOCKET_IFNAME{}", network));
  segment_.emplace(unique_id, rank, ranks);
  RankSlot& line = segment_->line(rank);
  line.host = host_of_this_process();
  line.device = physical_device(device);
  begin({.kind = Setup::Kind::join});
}

bool Communicator::spans_hosts() const {
  const std::uint64_t own = segment_->line(rank_).host;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (segment_->line(peer).host != own) return true;
  }
  return false;
}

bool Communicator::has_windows() const {
  return version() < 22900 || (is_fully_connected() && !spans_hosts());
}

void Communicator::begin(const Setup& setup, std::function<void()> deliver) {
  const std::lock_guard lock(mutex_);
  RankSlot& line = segment_->line(rank_);
  line.setup_records[setups_ % 2] = setup;
  line.setups.store(++setups_, std::memory_order_release);
  segment_->ring();
  in_setup_ = true;
  polls_left_ = blocking_ ? 0 : 1 + polls_.draw();
  if (deliver) deferred_.push_back(std::move(deliver));
}

bool Communicator::answers_early() {
  const std::lock_guard lock(mutex_);
  return !blocking_ && version() >= 22800 && polls_.draw() % 2 == 0;
}

ncclResult_t Communicator::launch(std::function<void()> enqueue) {
  {
    const std::lock_guard lock(mutex_);
    polls_left_ = blocking_ ? 0 : polls_.draw();
    if (polls_left_ > 0) {
      deferred_.push_back(std::move(enqueue));
      return ncclInProgress;
    }
  }
  enqueue();
  return ncclSuccess;
}

ncclResult_t Communicator::poll() {
  try {
    if (!has_arrived()) return ncclInProgress;
    // Not under the lock: what is enqueued may run at once, and fail.
    for (const auto& enqueue : std::exchange(deferred_, {})) enqueue();
  } catch (const Failure& failure) {
    fail(failure.result, failure.what());
  }
  return error_;
}

bool Communicator::has_arrived() {
  const std::lock_guard lock(mutex_);
  if (error_ != ncclSuccess) return true;
  if (in_setup_ && !setup_is_done()) return false;
  in_setup_ = false;
  if (polls_left_ == 0) return true;
  --polls_left_;
  return false;
}

ncclResult_t Communicator::state() const {
  const std::lock_guard lock(mutex_);
  if (error_ != ncclSuccess) return error_;
  return in_setup_ || polls_left_ > 0 || !deferred_.empty() ? ncclInProgress : ncclSuccess;
}

ncclResult_t Communicator::wait() {
  while (true) {
    const std::uint32_t seen = segment_->rings();
    if (const ncclResult_t result = poll(); result != ncclInProgress) return result;
    segment_->wait_for_ring(seen, longest_sleep);
  }
}

bool Communicator::setup_is_done() {
  const Setup& own = segment_->line(rank_).setup_records[(setups_ - 1) % 2];
  bool all_here = true;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (segment_->line(peer).setups.load(std::memory_order_acquire) < setups_) {
      all_here = false;
    } else {
      check_same_setup(peer, own);
    }
  }
  if (!all_here) return false;
  if (own.kind == Setup::Kind::finalize) return pending == 0;
  if (own.kind == Setup::Kind::join) {
    if (rank_ == 0) segment_->unlink();
    check_devices();
  }
  return true;
}

void Communicator::check_same_setup(int peer, const Setup& own) const {
  const Setup& theirs = segment_->line(peer).setup_records[(setups_ - 1) % 2];
  if (theirs == own) return;
  report_mistake("NCCL calls differ", fmt::format("rank {} {}, rank {} {}: all ranks must do the same", rank_,
                                                  describe(own), peer, describe(theirs)));
}

void Communicator::check_devices() const {
  const RankSlot& own = segment_->line(rank_);
  for (int peer = 0; peer < ranks_; ++peer) {
    const RankSlot& line = segment_->line(peer);
    if (peer == rank_ || line.host != own.host || line.device != own.device) continue;
    throw Failure(ncclInvalidUsage, fmt::format("Duplicate GPU detected: rank {} and rank {} both on CUDA "
                                                "device {}",
                                                rank_, peer, device_));
  }
}

void Communicator::fail(ncclResult_t result, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (error_ != ncclSuccess) return;
  last_error_ = text;
  error_ = result;
}

std::string Communicator::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

void Communicator::set_last_error(const std::string& text) {
  const std::lock_guard lock(mutex_);
  last_error_ = text;
}

void Communicator::end(Life how) {
  {
    const std::lock_guard lock(mutex_);
    deferred_.clear();
  }
  life_ = how;
  segment_->ring();
}

bool Communicator::may_begin(std::optional<std::uint64_t> ticket) const {
  return !busy_ && (!ticket || *ticket == tickets_begun_);
}

std::uint64_t Communicator::collective_begins(std::optional<std::uint64_t> ticket) {
  busy_ = true;
  if (ticket) ++tickets_begun_;
  return ++collectives_;
}

}  // namespace simgpu::nccl
