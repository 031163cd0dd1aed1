#include "comm/tcp/exchange.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

/// Partial sums of one agency that wait to be sent.
constexpr std::size_t partials_ahead = 8;

/// Chunks of one remote part that are kept until the other parts' come. A peer that is further ahead has to
/// wait; the slowest never does, so all go on.
constexpr std::size_t chunks_kept = 8;

/// Bytes of a chunk for which the compute thread is interrupted: a millisecond of 1 Gbit/s. There, convnet 64
/// took 21.6 ms a step in place of 23.2 with a turn for each packet; with nothing to hide behind, waking at
/// once is 1 to 2 % faster.
constexpr std::size_t worth_a_turn = std::size_t{128} << 10;

// An abort by a rank of this node rings no socket: look for it this often.
constexpr int longest_nap_ms = 20;

}  // namespace

DirectExchange::DirectExchange(const Placement& placement, NodeRanks& node, std::vector<Link>& links)
    : node_(node),
      links_(links),
      rank_(node.members().rank()),
      ranks_(placement.ranks()),
      duties_(placement, rank_),
      incoming_(duties_.remote_parts.size(), ChunkRing(chunks_kept)),
      heard_(links.size()) {
  for (const int owner : duties_.owners) {
    agencies_.push_back({.owner = owner, .link = link_to(owner), .ring = ChunkRing(partials_ahead)});
  }
}

std::size_t DirectExchange::link_to(int rank) const {
  const auto link =
      std::ranges::find_if(links_, [&](const Link& candidate) { return candidate.rank() == rank; });
  return static_cast<std::size_t>(link - links_.begin());
}

void DirectExchange::run(Phases phases, std::span<const ArenaRange> ranges, bool behind_compute) {
  phases_ = phases;
  start(ranges);
  worth_waking_ = behind_compute ? worth_a_turn : 1;
  node_.arrive();
  all_here_ = Clock::now();
  if (!phases_.sums) {
    spread_shard();
  } else if (duties_.remote_parts.empty()) {
    sum_alone();
  }
  while (!done()) {
    post_partials();
    move_bytes();
    if (!done()) wait_for_links();
  }
  node_.arrive();
}

void DirectExchange::start(std::span<const ArenaRange> ranges) {
  chunks_.cut(ranges, ranks_);
  signature_ = node_.call().signature();
  std::ranges::fill(heard_, 0);
  unheard_ = links_.size();
  chunks_to_sum_ = phases_.sums ? chunks_.count(rank_) : 0;
  parts_missing_.assign(chunks_to_sum_, duties_.remote_parts.size());
  for (Agency& agency : agencies_) {
    const std::size_t chunks = chunks_.count(agency.owner);
    agency.chunks = phases_.sums ? chunks : 0;
    agency.next_chunk = agency.next_part = 0;
    agency.sums_missing = phases_.spreads ? chunks : 0;
  }
  make_room();
}

void DirectExchange::make_room() {
  if (!phases_.sums) return;
  for (ChunkRing& ring : incoming_) ring.make_room(chunks_.count(rank_));
  if (node_.size() == 1) return;  // what it sends lies in its arena
  for (Agency& agency : agencies_)
    agency.ring.make_room(chunks_.count(agency.owner) * duties_.subtrees.size());
}

bool DirectExchange::done() const {
  return chunks_to_sum_ == 0 &&
         std::ranges::all_of(agencies_,
                             [](const Agency& agency) {
                               return agency.next_chunk == agency.chunks && agency.sums_missing == 0;
                             }) &&
         std::ranges::none_of(links_, [](const Link& link) { return link.has_outgoing(); });
}

void DirectExchange::post_partials() {
  for (Agency& agency : agencies_) {
    while (agency.next_chunk < agency.chunks &&
           links_[agency.link].partials_in_queue() < static_cast<int>(partials_ahead)) {
      post_partial(agency);
      if (++agency.next_part < duties_.subtrees.size()) continue;
      agency.next_part = 0;
      ++agency.next_chunk;
    }
  }
}

void DirectExchange::post_partial(Agency& agency) {
  const ArenaRange chunk = chunks_.at(agency.owner, agency.next_chunk);
  const RankRange subtree = duties_.subtrees[agency.next_part];
  const auto& ranks = node_.members().ranks;
  const int first = static_cast<int>(std::ranges::lower_bound(ranks, subtree.first) - ranks.begin());
  const auto count = static_cast<std::size_t>(chunk.count);
  const DType travels_as = travel_type(chunk.dtype(), subtree.size());
  const std::byte* partial = data_of(chunk, first);
  if (subtree.size() > 1) {
    std::byte* const sum = agency.ring.at(agency.next_chunk * duties_.subtrees.size() + agency.next_part);
    terms_.clear();
    for (int member = 0; member < subtree.size(); ++member)
      terms_.push_back({data_of(chunk, first + member), chunk.dtype()});
    tree_sum(travels_as, duties_.subtree_trees[agency.next_part], terms_, std::span(&sum, 1), count);
    partial = sum;
  }
  links_[agency.link].post({.kind = ChunkHeader::Kind::partial,
                            .call = node_.call().number,
                            .signature = signature_,
                            .part = static_cast<std::uint16_t>(agency.next_part),
                            .chunk = static_cast<std::uint16_t>(agency.next_chunk)},
                           {partial, count * size_of(travels_as)});
}

void DirectExchange::move_bytes() {
  for (std::size_t index = 0; index < links_.size(); ++index) {
    Link& link = links_[index];
    const bool sends = link.send_some();
    const bool receives = link.receive_some([&](const ChunkHeader& header) { return place(link, header); },
                                            [&](const ChunkHeader& header) {
                                              if (heard_[index] == 0 && --unheard_ == 0)
                                                all_here_ = Clock::now();
                                              heard_[index] = 1;
                                              arrived(link, header);
                                            });
    if (!sends || !receives) throw PeerTrouble{PeerTrouble::Kind::lost, {link.rank()}};
  }
}

std::byte* DirectExchange::place(const Link& from, const ChunkHeader& header) {
  if (header.kind == ChunkHeader::Kind::goodbye) {
    if (owes(from)) throw PeerTrouble{PeerTrouble::Kind::left, {from.rank()}};
    return nullptr;
  }
  if (static_cast<std::int32_t>(header.call - node_.call().number) > 0) return nullptr;
  if (!fits(from, header)) {
    throw CommError(
        fmt::format("rank {} sends what does not belong to {}: all ranks must make the same calls",
                    from.rank(), node_.call().describe()));
  }
  if (header.kind == ChunkHeader::Kind::sum) return chunks_.at(from.rank(), header.chunk).data();
  const std::size_t first_kept = chunks_.count(rank_) - chunks_to_sum_;
  if (header.chunk >= first_kept + chunks_kept) return nullptr;
  return incoming_[remote_part(from, header.part)].at(header.chunk);
}

bool DirectExchange::fits(const Link& from, const ChunkHeader& header) const {
  const bool is_sum = header.kind == ChunkHeader::Kind::sum;
  const int owner = is_sum ? from.rank() : rank_;
  if (header.call != node_.call().number || header.signature != signature_) return false;
  if (header.chunk >= chunks_.count(owner)) return false;
  const int ranks = is_sum ? 1 : duties_.remote_parts[remote_part(from, header.part)].ranks;
  const ArenaRange chunk = chunks_.at(owner, header.chunk);
  return header.bytes == static_cast<std::size_t>(chunk.count) * size_of(travel_type(chunk.dtype(), ranks));
}

void DirectExchange::arrived(const Link& from, const ChunkHeader& header) {
  if (header.kind == ChunkHeader::Kind::sum) {
    node_.copy_to_members(chunks_.at(from.rank(), header.chunk));
    --agency_for(from).sums_missing;
  } else if (--parts_missing_[header.chunk] == 0) {
    sum_chunk(header.chunk);
    --chunks_to_sum_;
  }
}

void DirectExchange::sum_chunk(std::size_t chunk) {
  const ArenaRange range = chunks_.at(rank_, chunk);
  terms_.resize(duties_.tree.leaves());
  outputs_.clear();
  for (std::size_t member = 0; member < duties_.local_leaves.size(); ++member) {
    std::byte* const values = data_of(range, static_cast<int>(member));
    terms_[duties_.local_leaves[member]] = {values, range.dtype()};
    if (phases_.spreads || static_cast<int>(member) == node_.index()) outputs_.push_back(values);
  }
  for (std::size_t part = 0; part < incoming_.size(); ++part) {
    const auto& [agent, index, ranks, leaf] = duties_.remote_parts[part];
    terms_[leaf] = {incoming_[part].at(chunk), travel_type(range.dtype(), ranks)};
  }
  tree_sum(range.dtype(), duties_.tree, terms_, outputs_, static_cast<std::size_t>(range.count));
  if (phases_.spreads) post_sum(chunk);
}

void DirectExchange::post_sum(std::size_t chunk) {
  const ArenaRange range = chunks_.at(rank_, chunk);
  for (const int taker : duties_.takers) {
    links_[link_to(taker)].post({.kind = ChunkHeader::Kind::sum,
                                 .call = node_.call().number,
                                 .signature = signature_,
                                 .chunk = static_cast<std::uint16_t>(chunk)},
                                {range.data(), range.bytes()});
  }
}

/// All ranks turned out to be on one node: nobody sends anything.
void DirectExchange::sum_alone() {
  for (std::size_t chunk = 0; chunk < chunks_.count(rank_); ++chunk) sum_chunk(chunk);
  chunks_to_sum_ = 0;
}

void DirectExchange::spread_shard() {
  for (std::size_t chunk = 0; chunk < chunks_.count(rank_); ++chunk) {
    post_sum(chunk);
    node_.copy_to_members(chunks_.at(rank_, chunk));
  }
}

DirectExchange::Agency& DirectExchange::agency_for(const Link& from) {
  return *std::ranges::find(agencies_, from.rank(), &Agency::owner);
}

std::size_t DirectExchange::remote_part(const Link& from, std::uint16_t index) const {
  const auto part = std::ranges::find_if(duties_.remote_parts, [&](const Duties::RemotePart& candidate) {
    return candidate.agent == from.rank() && candidate.index == index;
  });
  if (part == duties_.remote_parts.end()) {
    throw CommError(fmt::format("rank {} sends a part that it does not have", from.rank()));
  }
  return static_cast<std::size_t>(part - duties_.remote_parts.begin());
}

void DirectExchange::wait_for_links() {
  if (node_.shared().aborted()) throw CommError(node_.shared().abort_reason());
  if (Clock::now() >= node_.deadline()) throw PeerTrouble{PeerTrouble::Kind::silent, silent_ranks()};
  events_.clear();
  for (Link& link : links_) {
    const int input = link.holds_early_chunk() ? 0 : POLLIN;
    link.gather_before_waking(worth_waking_);
    events_.push_back({link.fd(), static_cast<short>(input | (link.has_outgoing() ? POLLOUT : 0)), 0});
  }
  poll(events_.data(), events_.size(), longest_nap_ms);
}

bool DirectExchange::owes(const Link& link) const {
  const auto owes_sums = [&](const Agency& agency) {
    return agency.owner == link.rank() && agency.sums_missing > 0;
  };
  const auto owes_parts = [&](const Duties::RemotePart& part) {
    return part.agent == link.rank() && chunks_to_sum_ > 0;
  };
  return link.has_outgoing() || std::ranges::any_of(agencies_, owes_sums) ||
         std::ranges::any_of(duties_.remote_parts, owes_parts);
}

std::vector<int> DirectExchange::silent_ranks() const {
  std::vector<int> ranks;
  for (const Link& link : links_) {
    if (owes(link)) ranks.push_back(link.rank());
  }
  return ranks;
}

}  // namespace lockstep::comm
