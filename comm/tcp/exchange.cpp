#include "comm/tcp/exchange.h"

#include <algorithm>

#include <fmt/format.h>

#include "comm/net/tcp.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

/// Partial sums for one owner that wait to be sent.
constexpr std::size_t partials_ahead = 8;

/// Chunks of one remote part that are kept until the other parts' come. A peer that is further ahead has to
/// wait; the slowest never does, so all go on.
constexpr std::size_t chunks_kept = 8;

/// Bytes of a chunk for which the compute thread is interrupted: a millisecond of 1 Gbit/s. There, convnet 64
/// took 21.6 ms a step in place of 23.2 with a wake for each packet; with nothing to hide behind, waking at
/// once is 1 to 2 % faster.
constexpr std::size_t least_wake_bytes = std::size_t{128} << 10;

// An abort by a rank of this node wakes no socket: check for it this often.
constexpr int longest_poll_ms = 20;

}  // namespace

TcpExchange::TcpExchange(const Placement& placement, NodeRanks& node, std::vector<Link>& links)
    : node_(node),
      links_(links),
      rank_(node.members().rank()),
      ranks_(placement.ranks()),
      schedule_(placement, rank_),
      received_(schedule_.remote_parts.size(), ChunkRing(chunks_kept)),
      orders_(links.size()),
      heard_(links.size()) {
  for (const int owner : schedule_.owners) {
    outgoing_.push_back({.owner = owner, .link = link_to(owner), .ring = ChunkRing(partials_ahead)});
  }
}

std::size_t TcpExchange::link_to(int rank) const {
  const auto link =
      std::ranges::find_if(links_, [&](const Link& candidate) { return candidate.rank() == rank; });
  return static_cast<std::size_t>(link - links_.begin());
}

void TcpExchange::run(Phases phases, std::span<const ArenaRange> ranges, bool behind_compute) {
  phases_ = phases;
  start(ranges);
  wake_bytes_ = behind_compute ? least_wake_bytes : 1;
  node_.arrive();
  all_here_ = Clock::now();
  if (!phases_.sums) {
    spread_shard(ranges.front());
  } else if (schedule_.remote_parts.empty()) {
    sum_alone();
  }
  while (!done()) {
    post_partials();
    move_bytes();
    if (!done()) wait_for_links();
  }
  node_.arrive();
}

void TcpExchange::start(std::span<const ArenaRange> ranges) {
  chunks_.cut(ranges, ranks_);
  least_chunk_ = phases_.only_filled ? 0 : chunks_.least_bytes();
  signature_ = node_.call().signature();
  std::ranges::fill(heard_, 0);
  unheard_ = links_.size();
  chunks_to_sum_ = phases_.sums ? chunks_.count(rank_) : 0;
  parts_missing_.assign(chunks_to_sum_, schedule_.remote_parts.size());
  for (OutgoingPartials& outgoing : outgoing_) {
    const std::size_t chunks = chunks_.count(outgoing.owner);
    outgoing.chunks = phases_.sums ? chunks : 0;
    outgoing.next_chunk = outgoing.next_part = 0;
    outgoing.sums_missing = phases_.spreads ? chunks : 0;
  }
  expect_chunks();
  make_room();
}

void TcpExchange::expect_chunks() {
  for (std::size_t link = 0; link < links_.size(); ++link) {
    const int peer = links_[link].rank();
    const auto parts = std::ranges::count(schedule_.remote_parts, peer, &ReduceSchedule::RemotePart::proxy);
    const auto owner = std::ranges::find(outgoing_, peer, &OutgoingPartials::owner);
    orders_[link] = ChunkOrder(static_cast<std::size_t>(parts), chunks_to_sum_,
                               owner == outgoing_.end() ? 0 : owner->sums_missing);
  }
}

void TcpExchange::make_room() {
  if (!phases_.sums) return;
  for (ChunkRing& ring : received_) ring.make_room(chunks_.count(rank_));
  if (node_.size() == 1) return;  // it sends straight from its arena
  for (OutgoingPartials& outgoing : outgoing_)
    outgoing.ring.make_room(chunks_.count(outgoing.owner) * schedule_.subtrees.size());
}

bool TcpExchange::done() const {
  return chunks_to_sum_ == 0 && std::ranges::all_of(outgoing_, &OutgoingPartials::is_done) &&
         std::ranges::none_of(links_, &Link::has_outgoing);
}

void TcpExchange::post_partials() {
  for (OutgoingPartials& outgoing : outgoing_) {
    while (outgoing.next_chunk < outgoing.chunks &&
           links_[outgoing.link].partials_in_queue() < static_cast<int>(partials_ahead)) {
      post_partial(outgoing);
      if (++outgoing.next_part < schedule_.subtrees.size()) continue;
      outgoing.next_part = 0;
      ++outgoing.next_chunk;
    }
  }
}

void TcpExchange::post_partial(OutgoingPartials& outgoing) {
  const ArenaRange chunk = chunks_.at(outgoing.owner, outgoing.next_chunk);
  const RankRange subtree = schedule_.subtrees[outgoing.next_part];
  const auto& ranks = node_.members().ranks;
  const int first = static_cast<int>(std::ranges::lower_bound(ranks, subtree.first) - ranks.begin());
  const auto count = static_cast<std::size_t>(chunk.count);
  const DType travels_as = travel_type(chunk.dtype(), subtree.size());
  const std::byte* partial = data_of(chunk, first);
  if (subtree.size() > 1) {
    std::byte* const sum =
        outgoing.ring.at(outgoing.next_chunk * schedule_.subtrees.size() + outgoing.next_part);
    operands_.clear();
    for (int member = 0; member < subtree.size(); ++member)
      operands_.push_back({data_of(chunk, first + member), chunk.dtype()});
    reduce(travels_as, schedule_.subtree_trees[outgoing.next_part], operands_, std::span(&sum, 1), count);
    partial = sum;
  }
  links_[outgoing.link].post(header_of(ChunkHeader::Kind::partial, outgoing.next_chunk, outgoing.next_part),
                             {partial, count * size_of(travels_as)});
}

void TcpExchange::move_bytes() {
  for (std::size_t index = 0; index < links_.size(); ++index) {
    Link& link = links_[index];
    const bool sends = link.send_some();
    const bool receives = link.receive_some([&](const ChunkHeader& header) { return place(index, header); },
                                            [&](const ChunkHeader& header) {
                                              if (heard_[index] == 0 && --unheard_ == 0)
                                                all_here_ = Clock::now();
                                              heard_[index] = 1;
                                              arrived(index, header);
                                            });
    if (!sends || !receives) throw PeerTrouble{PeerTrouble::Kind::lost, {link.rank()}, link.problem()};
  }
}

std::byte* TcpExchange::place(std::size_t link, const ChunkHeader& header) {
  const Link& from = links_[link];
  if (header.kind == ChunkHeader::Kind::goodbye) {
    if (owes(from)) throw PeerTrouble{PeerTrouble::Kind::left, {from.rank()}, {}};
    return nullptr;
  }
  if (static_cast<std::int32_t>(header.call - node_.call().number) > 0) return nullptr;
  check(link, header);
  if (header.kind == ChunkHeader::Kind::sum) return chunks_.at(from.rank(), header.chunk).data();
  const std::size_t first_kept = chunks_.count(rank_) - chunks_to_sum_;
  if (header.chunk >= first_kept + chunks_kept) return nullptr;
  return received_[remote_part(from, header.part)].at(header.chunk);
}

void TcpExchange::check(std::size_t link, const ChunkHeader& header) const {
  const bool is_of_call = header.call == node_.call().number && header.signature == signature_;
  if (is_of_call && !orders_[link].is_next(header)) {
    throw CommError(fmt::format(
        "rank {} sends {} in {}: its data connection repeats or leaves out chunks, so the sum would be wrong",
        links_[link].rank(), orders_[link].describe(header), node_.call().describe()));
  }
  if (is_of_call && has_bytes_of_its_kind(link, header)) return;
  throw CommError(fmt::format("rank {} sends what does not belong to {}: all ranks must make the same calls",
                              links_[link].rank(), node_.call().describe()));
}

bool TcpExchange::has_bytes_of_its_kind(std::size_t link, const ChunkHeader& header) const {
  const Link& from = links_[link];
  const bool is_sum = header.kind == ChunkHeader::Kind::sum;
  const int ranks = is_sum ? 1 : schedule_.remote_parts[remote_part(from, header.part)].ranks;
  const ArenaRange chunk = chunks_.at(is_sum ? from.rank() : rank_, header.chunk);
  const std::size_t bytes =
      static_cast<std::size_t>(chunk.count) * size_of(travel_type(chunk.dtype(), ranks));
  return header.bytes == bytes ||
         (phases_.only_filled && header.bytes < bytes && header.bytes % size_of(chunk.dtype()) == 0);
}

void TcpExchange::arrived(std::size_t link, const ChunkHeader& header) {
  orders_[link].count(header);
  if (header.kind == ChunkHeader::Kind::sum) {
    ArenaRange chunk = chunks_.at(links_[link].rank(), header.chunk);
    chunk.count = static_cast<std::int64_t>(header.bytes / size_of(chunk.dtype()));
    node_.copy_to_members(chunk);
    --outgoing_for(links_[link]).sums_missing;
    return;
  }
  if (--parts_missing_[header.chunk] > 0) return;
  sum_chunk(header.chunk);
  --chunks_to_sum_;
}

void TcpExchange::sum_chunk(std::size_t chunk) {
  const ArenaRange range = chunks_.at(rank_, chunk);
  operands_.resize(schedule_.tree.leaves());
  outputs_.clear();
  for (std::size_t member = 0; member < schedule_.local_leaves.size(); ++member) {
    std::byte* const values = data_of(range, static_cast<int>(member));
    operands_[schedule_.local_leaves[member]] = {values, range.dtype()};
    if (phases_.spreads || static_cast<int>(member) == node_.index()) outputs_.push_back(values);
  }
  for (std::size_t part = 0; part < received_.size(); ++part) {
    const auto& [proxy, index, ranks, leaf] = schedule_.remote_parts[part];
    operands_[leaf] = {received_[part].at(chunk), travel_type(range.dtype(), ranks)};
  }
  reduce(range.dtype(), schedule_.tree, operands_, outputs_, static_cast<std::size_t>(range.count));
  if (phases_.spreads) post_sum(range, chunk);
}

void TcpExchange::post_sum(const ArenaRange& range, std::size_t chunk) {
  for (const int receiver : schedule_.receivers) {
    links_[link_to(receiver)].post(header_of(ChunkHeader::Kind::sum, chunk), {range.data(), range.bytes()});
  }
}

/// All ranks are on one node: no rank sends anything.
void TcpExchange::sum_alone() {
  for (std::size_t chunk = 0; chunk < chunks_.count(rank_); ++chunk) sum_chunk(chunk);
  chunks_to_sum_ = 0;
}

void TcpExchange::spread_shard(const ArenaRange& range) {
  const ArenaRange shard = shard_of(range, rank_, ranks_);
  const std::int64_t end = shard.first + (phases_.only_filled ? filled_part(shard) : shard).count;
  for (std::size_t chunk = 0; chunk < chunks_.count(rank_); ++chunk) {
    ArenaRange part = chunks_.at(rank_, chunk);
    part.count = std::clamp<std::int64_t>(end - part.first, 0, part.count);
    post_sum(part, chunk);
    node_.copy_to_members(part);
  }
}

TcpExchange::OutgoingPartials& TcpExchange::outgoing_for(const Link& from) {
  return *std::ranges::find(outgoing_, from.rank(), &OutgoingPartials::owner);
}

std::size_t TcpExchange::remote_part(const Link& from, std::uint16_t index) const {
  const auto part =
      std::ranges::find_if(schedule_.remote_parts, [&](const ReduceSchedule::RemotePart& candidate) {
        return candidate.proxy == from.rank() && candidate.index == index;
      });
  if (part == schedule_.remote_parts.end()) {
    throw CommError(fmt::format("rank {} sends a part that it does not have", from.rank()));
  }
  return static_cast<std::size_t>(part - schedule_.remote_parts.begin());
}

void TcpExchange::wait_for_links() {
  if (node_.aborted()) throw CommError(node_.abort_reason());
  if (Clock::now() >= node_.deadline()) throw PeerTrouble{PeerTrouble::Kind::silent, silent_ranks(), {}};
  events_.clear();
  for (Link& link : links_) {
    const int input = link.holds_early_chunk() ? 0 : POLLIN;
    link.gather_before_waking(wake_bytes_, least_chunk_);
    events_.push_back({link.fd(), static_cast<short>(input | (link.has_outgoing() ? POLLOUT : 0)), 0});
  }
  if (poll(events_.data(), events_.size(), longest_poll_ms) > 0 || !next_link_check_.passed()) return;
  // A dead link with bytes on their way out shows to nobody else.
  next_link_check_ = Deadline::in(time_between_link_checks);
  const auto dead = std::ranges::find_if(links_, is_link_dead, &Link::fd);
  if (dead != links_.end()) throw PeerTrouble{PeerTrouble::Kind::lost, {dead->rank()}, dead_link};
}

bool TcpExchange::owes(const Link& link) const {
  const auto owes_sums = [&](const OutgoingPartials& outgoing) {
    return outgoing.owner == link.rank() && outgoing.sums_missing > 0;
  };
  const auto owes_parts = [&](const ReduceSchedule::RemotePart& part) {
    return part.proxy == link.rank() && chunks_to_sum_ > 0;
  };
  return link.has_outgoing() || std::ranges::any_of(outgoing_, owes_sums) ||
         std::ranges::any_of(schedule_.remote_parts, owes_parts);
}

std::vector<int> TcpExchange::silent_ranks() const {
  std::vector<int> ranks;
  for (const Link& link : links_) {
    if (owes(link)) ranks.push_back(link.rank());
  }
  return ranks;
}

}  // namespace lockstep::comm
