#include "comm/shm/node_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "comm/watchdog/patience.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

std::string_view name_of(Call::Kind kind) {
  switch (kind) {
    case Call::Kind::allocate_arena:
      return "arena allocation";
    case Call::Kind::all_reduce:
      return "all-reduce";
    case Call::Kind::reduce_scatter:
      return "reduce-scatter";
    case Call::Kind::all_gather:
      return "all-gather";
    case Call::Kind::all_gather_filled:
      return "all-gather of what is filled";
    case Call::Kind::all_reduce_sum:
      return "sum";
    case Call::Kind::broadcast:
      return "broadcast";
    case Call::Kind::all_gather_texts:
      return "all-gather of texts";
    case Call::Kind::barrier:
      return "barrier";
  }
  return "?";
}

std::int64_t nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

}  // namespace

std::uint32_t Call::signature() const {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  std::uint64_t mixed = static_cast<std::uint64_t>(kind) + 1;
  for (const std::uint64_t part :
       {std::uint64_t{number}, std::uint64_t{bytes}, detail, static_cast<std::uint64_t>(rounds)}) {
    mixed = (mixed ^ part) * odd;
    mixed ^= mixed >> 32;
  }
  return static_cast<std::uint32_t>(mixed);
}

std::string Call::describe() const {
  return fmt::format("{} {}{}", name_of(kind), number, label.str());
}

std::string explain(Barrier::Outcome outcome, const std::string& ranks, const Call& call, Seconds timeout) {
  switch (outcome) {
    case Barrier::Outcome::timed_out:
      return fmt::format("{} did not {} {} within {:g} s", ranks, call.rounds == 0 ? "reach" : "finish",
                         call.describe(), timeout.count());
    case Barrier::Outcome::peer_left:
      return fmt::format("{} left the group before the end of {}", ranks, call.describe());
    case Barrier::Outcome::mismatch:
      return fmt::format("{} made another call than {} of {} bytes: all ranks must make the same calls",
                         ranks, call.describe(), call.bytes);
    case Barrier::Outcome::aborted:
    case Barrier::Outcome::all_here:
      break;
  }
  return {};
}

NodeRanks::NodeRanks(NodeMembers members, Seconds timeout, Deadline rendezvous, const Look& look)
    : members_(std::move(members)),
      timeout_(timeout),
      group_(open_local_group(members_, rendezvous, look)),
      barrier_(shared(), members_.index) {
  monitor_.emplace(group_, members_, [this](const LocalPeer& peer) { peer_lost(peer); });
}

NodeRanks::~NodeRanks() {
  barrier_.detach();
}

NodeRanks::CallScope NodeRanks::begin(Call::Kind kind, std::size_t bytes, std::uint64_t detail,
                                      ExchangeLabel label) {
  const auto now = Clock::now();
  const std::lock_guard lock(call_mutex_);
  const std::size_t length = label.what.copy(what_.data(), what_.size());
  label.what = {what_.data(), length};
  call_ = Call{.kind = kind,
               .number = call_.number + 1,
               .bytes = bytes,
               .detail = detail,
               .label = label,
               .rounds = 0,
               .in_progress = true,
               .start = now,
               .all_here = now};
  return CallScope(*this);
}

NodeRanks::CallScope NodeRanks::begin(Call::Kind kind, std::span<const ArenaRange> ranges,
                                      ExchangeLabel label) {
  std::size_t bytes = 0;
  for (const ArenaRange& range : ranges) bytes += range.bytes();
  return begin(kind, bytes, signature_of(ranges), label);
}

ExchangeTiming NodeRanks::timing(Clock::time_point all_here) const {
  return {.skew_ns = nanoseconds(all_here - call_.start),
          .transfer_ns = nanoseconds(Clock::now() - all_here)};
}

void NodeRanks::end() {
  const std::lock_guard lock(call_mutex_);
  call_.in_progress = false;
}

std::uint32_t NodeRanks::call_number() const {
  const std::lock_guard lock(call_mutex_);
  return call_.number;
}

std::string NodeRanks::describe_call() const {
  const std::lock_guard lock(call_mutex_);
  if (call_.number == 0) return {};
  return fmt::format("{} {}", call_.in_progress ? "in" : "after", call_.describe());
}

Clock::time_point NodeRanks::deadline() const {
  return call_.start + clock_duration(timeout_);
}

void NodeRanks::arrive() {
  const auto outcome =
      barrier_.arrive_and_wait(call_.signature(), Patience::first_look(call_.start, timeout_));
  if (outcome == Barrier::Outcome::timed_out) {
    wait_on();
  } else if (outcome != Barrier::Outcome::all_here) {
    fail(outcome, {});
  }
  if (call_.rounds++ == 0) call_.all_here = Clock::now();
}

void NodeRanks::wait_on() {
  Patience patience(rank(), timeout_, call_.start,
                    [this](int rank) { return parse_status(*read_status(rank)); });
  auto outcome = Barrier::Outcome::timed_out;
  while (outcome == Barrier::Outcome::timed_out) {
    const auto until = patience.look(ranks_at(barrier_.missing()));
    if (!until) fail(outcome, call_.rounds == 0 ? patience.stuck() : culprits(patience.stuck()));
    outcome = barrier_.wait(*until);
  }
  if (outcome != Barrier::Outcome::all_here) fail(outcome, {});
}

std::vector<int> NodeRanks::culprits(const std::vector<int>& late) const {
  std::vector<int> behind;
  if (ranks_behind_) behind = ranks_behind_();
  return behind.empty() ? late : behind;
}

/// `ranks`: those to blame, if they are known.
void NodeRanks::fail(Barrier::Outcome outcome, const std::vector<int>& ranks) {
  if (outcome != Barrier::Outcome::aborted) {
    const auto found =
        ranks_at(outcome == Barrier::Outcome::mismatch ? barrier_.mismatched() : barrier_.missing());
    abort(explain(outcome, name_of_ranks(ranks.empty() ? found : ranks), call_, timeout_));
    throw CommError(abort_reason());  // another rank's reason when that came first
  }
  throw CommError(fmt::format("{}; rank {} was in {}", abort_reason(), members_.rank(), call_.describe()));
}

void NodeRanks::peer_lost(const LocalPeer& peer) {
  {
    const std::lock_guard lock(lost_mutex_);
    lost_.push_back(peer.rank);
  }
  abort(comm::name_of(peer.rank, peer.pid) + " closed its connection");
}

bool NodeRanks::has_lost(int rank) const {
  const std::lock_guard lock(lost_mutex_);
  return std::ranges::find(lost_, rank) != lost_.end();
}

std::vector<int> NodeRanks::ranks_at(std::vector<int> indexes) const {
  std::ranges::transform(indexes, indexes.begin(), [this](int index) { return members_.rank_at(index); });
  return indexes;
}

void NodeRanks::abort_by_rank(std::string_view reason) noexcept {
  try {
    const std::string prefix = fmt::format("rank {}", members_.rank());
    const bool names_rank = reason.starts_with(prefix + ",") || reason.starts_with(prefix + ":");
    abort(names_rank ? std::string(reason) : fmt::format("{}: {}", prefix, reason));
  } catch (const std::exception&) {
    abort(reason);  // no memory for the longer text
  }
}

void NodeRanks::copy_to_members(const ArenaRange& range) const {
  for (int member = 0; member < size(); ++member) {
    if (member != index()) std::memcpy(data_of(range, member), range.data(), range.bytes());
  }
}

void NodeRanks::publish_status(std::string_view text) noexcept {
  shared().status_slot(index()).write(text);
}

std::optional<std::string> NodeRanks::read_status(int rank) const {
  const auto member = std::ranges::find(members_.ranks, rank);
  if (member == members_.ranks.end()) return std::nullopt;
  return shared().status_slot(static_cast<int>(member - members_.ranks.begin())).read();
}

NodeRanks::CallScope NodeRanks::begin_allocation(DType dtype, std::int64_t elements) {
  return begin(Call::Kind::allocate_arena, static_cast<std::size_t>(elements) * size_of(dtype),
               static_cast<std::uint64_t>(dtype));
}

std::unique_ptr<SharedArena> NodeRanks::allocate_arena(DType dtype, std::int64_t elements) {
  const std::size_t stride = SharedArena::stride(dtype, elements);
  const std::size_t begin = group_.segment.claim_arenas(stride);
  if (index() == 0) shared().make_room();
  arrive();
  const auto bytes = static_cast<std::size_t>(size()) * stride;
  auto arena = std::make_unique<SharedArena>(this, ++arenas_, Mapping(shared().fd(), begin, bytes), index(),
                                             dtype, elements);
  arena->populate(index());
  arrive();
  for (int member = 0; member < size(); ++member) arena->populate(member);
  arrive();
  return arena;
}

}  // namespace lockstep::comm
