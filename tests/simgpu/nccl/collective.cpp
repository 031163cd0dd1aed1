#include "tests/simgpu/nccl/collective.h"

#include <fmt/format.h>

#include "tests/simgpu/nccl/faults.h"
#include "tests/simgpu/operation.h"

namespace simgpu::nccl {
namespace {

/// The executor asks again at once; this bounds how long it is kept from its other streams, and how often an
/// idle rank looks.
constexpr std::chrono::microseconds longest_sleep{100};

}  // namespace

Collective::Collective(std::shared_ptr<Communicator> rank, const Call& call, const std::byte* send,
                       std::byte* receive)
    : rank_(std::move(rank)), call_(call), transfer_(call, rank_->rank(), rank_->ranks(), send, receive) {
  if (call.captured) {
    ++rank_->graph_references;
  } else {
    ticket_ = rank_->next_ticket();
    ++rank_->pending;
    waited_for_ = true;
  }
}

Collective::~Collective() {
  if (call_.captured) --rank_->graph_references;
  if (waited_for_) --rank_->pending;
}

bool Collective::step() {
  const Segment& segment = rank_->segment();
  bool slept = false;
  while (!rank_->aborted()) {
    const std::uint32_t seen = segment.rings();
    const Phase before = phase_;
    if (advance()) return true;
    if (phase_ != before) continue;
    if (slept) return false;
    segment.wait_for_ring(seen, longest_sleep);
    slept = true;
  }
  finish();
  return true;
}

bool Collective::advance() {
  switch (phase_) {
    case Phase::waits_its_turn:
      if (rank_->may_begin(ticket_)) begin();
      return false;
    case Phase::fills:
      transfer_.fill(chunk_, mailboxes());
      announce(stage() + 1);
      phase_ = Phase::is_filled;
      return false;
    case Phase::is_filled:
      if (!all_reached(stage() + 1)) {
        if (peer_is_lost(stage() + 1)) phase_ = Phase::is_stuck;
        return false;
      }
      if (chunk_ == 0) check_same_call();
      if (transfer_.sums_in_mailbox()) transfer_.sum(chunk_, mailboxes());
      announce(stage() + 2);
      phase_ = Phase::is_summed;
      return false;
    case Phase::is_summed:
      if (transfer_.sums_in_mailbox() && !all_reached(stage() + 2)) {
        if (peer_is_lost(stage() + 2)) phase_ = Phase::is_stuck;
        return false;
      }
      transfer_.collect(chunk_, mailboxes());
      ++rank_->chunks_done;
      if (++chunk_ < transfer_.chunks()) {
        phase_ = Phase::fills;
        return false;
      }
      finish();
      return true;
    case Phase::is_stuck:
      return false;
  }
  return false;
}

void Collective::begin() {
  number_ = rank_->collective_begins(ticket_);
  chunk_ = 0;
  if (fails_at(number_, rank_->rank())) {
    rank_->fail(ncclSystemError, fmt::format("collective {} failed, as SIMGPU_NCCL_FAIL_AT asks", number_));
    phase_ = Phase::is_stuck;
    return;
  }
  // vllm-project/vllm #52504: replays of graphs with collectives between hosts deadlock.
  if (call_.captured && version() < 23004 && rank_->spans_hosts()) {
    phase_ = Phase::is_stuck;
    return;
  }
  rank_->segment().line(rank_->rank()).calls[number_ % 2] = call_;
  phase_ = Phase::fills;
}

void Collective::finish() {
  if (phase_ != Phase::waits_its_turn) rank_->collective_ends();
  phase_ = Phase::waits_its_turn;
  if (waited_for_) --rank_->pending;
  waited_for_ = false;
}

std::vector<std::byte*> Collective::mailboxes() const {
  std::vector<std::byte*> result;
  for (int rank = 0; rank < rank_->ranks(); ++rank) {
    result.push_back(rank_->segment().mailbox(rank, rank_->chunks_done));
  }
  return result;
}

void Collective::announce(std::uint64_t stage) {
  rank_->segment().line(rank_->rank()).progress.store(stage, std::memory_order_release);
  rank_->segment().ring();
}

bool Collective::all_reached(std::uint64_t stage) const {
  for (int rank = 0; rank < rank_->ranks(); ++rank) {
    if (rank_->segment().line(rank).progress.load(std::memory_order_acquire) < stage) return false;
  }
  return true;
}

void Collective::check_same_call() const {
  for (int peer = 0; peer < rank_->ranks(); ++peer) {
    const Call& theirs = rank_->segment().line(peer).calls[number_ % 2];
    if (theirs == call_) continue;
    report_mistake("NCCL calls differ",
                   fmt::format("collective {} of the communicator is {} on rank {}, {} on rank {}: all ranks "
                               "must make the same calls in the same order",
                               number_, describe(call_), rank_->rank(), describe(theirs), peer));
  }
}

bool Collective::peer_is_lost(std::uint64_t stage) {
  if (!dead_peer_is_error()) return false;
  for (int peer = 0; peer < rank_->ranks(); ++peer) {
    const bool behind = rank_->segment().line(peer).progress.load(std::memory_order_acquire) < stage;
    if (peer == rank_->rank() || !behind || rank_->segment().is_alive(peer)) continue;
    rank_->fail(ncclRemoteError, fmt::format("rank {} is gone; it did not finish collective {} ({})", peer,
                                             number_, describe(call_)));
    return true;
  }
  return false;
}

}  // namespace simgpu::nccl
