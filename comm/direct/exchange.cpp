#include "comm/direct/exchange.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "comm/host/slices.h"
#include "comm/host/tree_sum.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

/// Small enough that sums start early. Over the loopback interface 25 MiB between 2 ranks took 14 ms with
/// chunks of 512 KiB or 1 MiB, and 33 ms and more with 128 KiB or less.
constexpr std::size_t chunk_bytes = std::size_t{512} << 10;

/// Partial sums of one agency that wait to be sent.
constexpr std::size_t partials_ahead = 8;

/// Chunks of one remote part that are kept until the other parts' come. A peer that is further ahead has to
/// wait; the slowest never does, so all go on.
constexpr std::size_t chunks_kept = 8;

// An abort by a rank of this node rings no socket: look for it this often.
constexpr int longest_nap_ms = 20;

}  // namespace

DirectExchange::DirectExchange(const Placement& placement, NodeRanks& node, std::vector<Link>& links)
    : placement_(placement),
      node_(node),
      links_(links),
      rank_(node.members().rank()),
      tree_(1),
      heard_(links.size()) {
  find_remote_parts();
  find_agencies();
}

void DirectExchange::find_remote_parts() {
  const int here = placement_.node_of(rank_);
  std::vector<RankRange> leaves;
  for (const int rank : node_.members().ranks) leaves.push_back({rank, rank + 1});
  for (int node = 0; node < placement_.nodes(); ++node) {
    const auto& subtrees = placement_.subtrees(node);
    if (node != here) leaves.insert(leaves.end(), subtrees.begin(), subtrees.end());
  }
  std::ranges::sort(leaves, {}, &RankRange::first);
  tree_ = SumTree(placement_.ranks(), leaves);
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const int node = placement_.node_of(leaves[leaf].first);
    if (node == here) {
      local_leaves_.push_back(leaf);
      continue;
    }
    const auto& subtrees = placement_.subtrees(node);
    const auto index = std::ranges::find(subtrees, leaves[leaf]) - subtrees.begin();
    remote_parts_.push_back(
        {.agent = placement_.agent(rank_, node), .index = static_cast<std::uint16_t>(index), .leaf = leaf});
  }
  incoming_.resize(remote_parts_.size());
}

void DirectExchange::find_agencies() {
  const int here = placement_.node_of(rank_);
  for (int owner = 0; owner < placement_.ranks(); ++owner) {
    if (placement_.node_of(owner) == here || placement_.agent(owner, here) != rank_) continue;
    agencies_.push_back({.owner = owner, .link = link_to(owner)});
  }
  for (const RankRange& subtree : placement_.subtrees(here)) subtree_trees_.emplace_back(subtree.size());
  outgoing_.resize(agencies_.size());
}

std::size_t DirectExchange::link_to(int rank) const {
  const auto link =
      std::ranges::find_if(links_, [&](const Link& candidate) { return candidate.rank() == rank; });
  return static_cast<std::size_t>(link - links_.begin());
}

DirectExchange::Range DirectExchange::slice_of(int owner) const {
  const int ranks = placement_.ranks();
  return {offset_ + slice_begin(bytes_, owner, ranks), offset_ + slice_begin(bytes_, owner + 1, ranks)};
}

std::size_t DirectExchange::chunks_of(int owner) const {
  return (slice_of(owner).size() + chunk_bytes - 1) / chunk_bytes;
}

DirectExchange::Range DirectExchange::chunk_of(int owner, std::size_t chunk) const {
  const Range slice = slice_of(owner);
  const std::size_t begin = slice.begin + chunk * chunk_bytes;
  return {begin, std::min(slice.end, begin + chunk_bytes)};
}

std::byte* DirectExchange::at(int member, std::size_t offset) const {
  return node_.shared().arena(member).data() + offset;
}

void DirectExchange::all_reduce(std::size_t offset, std::size_t bytes, DType dtype) {
  start(offset, bytes, dtype);
  node_.arrive();
  all_here_ = Clock::now();
  if (remote_parts_.empty()) sum_alone();
  while (!done()) {
    post_partials();
    move_bytes();
    if (!done()) wait_for_links();
  }
  node_.arrive();
}

void DirectExchange::start(std::size_t offset, std::size_t bytes, DType dtype) {
  offset_ = offset;
  bytes_ = bytes;
  dtype_ = dtype;
  std::ranges::fill(heard_, 0);
  unheard_ = links_.size();
  chunks_to_sum_ = chunks_of(rank_);
  parts_missing_.assign(chunks_to_sum_, remote_parts_.size());
  grow_rings();
  for (Agency& agency : agencies_) {
    agency.next_chunk = agency.next_part = 0;
    agency.sums_missing = chunks_of(agency.owner);
  }
}

/// No longer than the longest slice so far: many nodes have many rings, and short slices.
void DirectExchange::grow_rings() {
  const auto grow = [](std::vector<std::byte>& ring, std::size_t chunks, std::size_t most) {
    ring.resize(std::max(ring.size(), std::min(chunks, most) * chunk_bytes));
  };
  for (auto& ring : incoming_) grow(ring, chunks_of(rank_), chunks_kept);
  const std::size_t parts = subtree_trees_.size();
  for (std::size_t index = 0; index < agencies_.size() && node_.size() > 1; ++index) {
    grow(outgoing_[index], chunks_of(agencies_[index].owner) * parts, partials_ahead);
  }
}

bool DirectExchange::done() const {
  return chunks_to_sum_ == 0 &&
         std::ranges::all_of(agencies_, [](const Agency& agency) { return agency.sums_missing == 0; }) &&
         std::ranges::none_of(links_, [](const Link& link) { return link.has_outgoing(); });
}

void DirectExchange::post_partials() {
  for (std::size_t index = 0; index < agencies_.size(); ++index) {
    Agency& agency = agencies_[index];
    while (agency.next_chunk < chunks_of(agency.owner) &&
           links_[agency.link].partials_in_queue() < static_cast<int>(partials_ahead)) {
      post_partial(index);
      if (++agency.next_part < subtree_trees_.size()) continue;
      agency.next_part = 0;
      ++agency.next_chunk;
    }
  }
}

void DirectExchange::post_partial(std::size_t index) {
  const Agency& agency = agencies_[index];
  const Range chunk = chunk_of(agency.owner, agency.next_chunk);
  const RankRange subtree = placement_.subtrees(placement_.node_of(rank_))[agency.next_part];
  const auto& ranks = node_.members().ranks;
  const int first = static_cast<int>(std::ranges::lower_bound(ranks, subtree.first) - ranks.begin());
  const std::byte* partial = at(first, chunk.begin);
  if (subtree.size() > 1) {
    const std::size_t turn = agency.next_chunk * subtree_trees_.size() + agency.next_part;
    std::byte* const sum = outgoing_[index].data() + turn % partials_ahead * chunk_bytes;
    inputs_.clear();
    for (int member = 0; member < subtree.size(); ++member)
      inputs_.push_back(at(first + member, chunk.begin));
    tree_sum(dtype_, subtree_trees_[agency.next_part], inputs_, std::span(&sum, 1), chunk.size());
    partial = sum;
  }
  links_[agency.link].post({.kind = ChunkHeader::Kind::partial,
                            .call = node_.call().number,
                            .part = static_cast<std::uint16_t>(agency.next_part),
                            .chunk = static_cast<std::uint16_t>(agency.next_chunk)},
                           {partial, chunk.size()});
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
  if (header.call == node_.call().number + 1) return nullptr;
  const bool is_sum = header.kind == ChunkHeader::Kind::sum;
  const int owner = is_sum ? from.rank() : rank_;
  const bool expected = header.call == node_.call().number && header.chunk < chunks_of(owner) &&
                        header.bytes == chunk_of(owner, header.chunk).size();
  if (!expected) {
    throw CommError(
        fmt::format("rank {} sends what does not belong to {}: all ranks must make the same calls",
                    from.rank(), node_.call().describe()));
  }
  if (is_sum) return at(node_.index(), chunk_of(owner, header.chunk).begin);
  const std::size_t first_kept = chunks_of(rank_) - chunks_to_sum_;
  if (header.chunk >= first_kept + chunks_kept) return nullptr;
  return incoming_[remote_part(from, header.part)].data() + header.chunk % chunks_kept * chunk_bytes;
}

void DirectExchange::arrived(const Link& from, const ChunkHeader& header) {
  if (header.kind == ChunkHeader::Kind::sum) {
    spread_sum(from.rank(), header.chunk);
    --agency_for(from).sums_missing;
  } else if (--parts_missing_[header.chunk] == 0) {
    sum_chunk(header.chunk);
    --chunks_to_sum_;
  }
}

void DirectExchange::sum_chunk(std::size_t chunk) {
  const Range range = chunk_of(rank_, chunk);
  inputs_.resize(tree_.leaves());
  outputs_.clear();
  for (std::size_t member = 0; member < local_leaves_.size(); ++member) {
    outputs_.push_back(at(static_cast<int>(member), range.begin));
    inputs_[local_leaves_[member]] = outputs_.back();
  }
  for (std::size_t part = 0; part < remote_parts_.size(); ++part) {
    inputs_[remote_parts_[part].leaf] = incoming_[part].data() + chunk % chunks_kept * chunk_bytes;
  }
  tree_sum(dtype_, tree_, inputs_, outputs_, range.size());
  for (int node = 0; node < placement_.nodes(); ++node) {
    if (node == placement_.node_of(rank_)) continue;
    links_[link_to(placement_.agent(rank_, node))].post({.kind = ChunkHeader::Kind::sum,
                                                         .call = node_.call().number,
                                                         .chunk = static_cast<std::uint16_t>(chunk)},
                                                        {at(node_.index(), range.begin), range.size()});
  }
}

/// All ranks turned out to be on one node: nobody sends anything.
void DirectExchange::sum_alone() {
  for (std::size_t chunk = 0; chunk < chunks_of(rank_); ++chunk) sum_chunk(chunk);
  chunks_to_sum_ = 0;
}

void DirectExchange::spread_sum(int owner, std::size_t chunk) {
  const Range range = chunk_of(owner, chunk);
  for (int member = 0; member < node_.size(); ++member) {
    if (member == node_.index()) continue;
    std::memcpy(at(member, range.begin), at(node_.index(), range.begin), range.size());
  }
}

DirectExchange::Agency& DirectExchange::agency_for(const Link& from) {
  return *std::ranges::find(agencies_, from.rank(), &Agency::owner);
}

std::size_t DirectExchange::remote_part(const Link& from, std::uint16_t index) const {
  const auto part = std::ranges::find_if(remote_parts_, [&](const RemotePart& candidate) {
    return candidate.agent == from.rank() && candidate.index == index;
  });
  if (part == remote_parts_.end()) {
    throw CommError(fmt::format("rank {} sends a part that it does not have", from.rank()));
  }
  return static_cast<std::size_t>(part - remote_parts_.begin());
}

void DirectExchange::wait_for_links() {
  if (node_.shared().aborted()) throw CommError(node_.shared().abort_reason());
  if (Clock::now() >= node_.deadline()) throw PeerTrouble{PeerTrouble::Kind::silent, silent_ranks()};
  events_.clear();
  for (Link& link : links_) {
    const int input = link.holds_early_chunk() ? 0 : POLLIN;
    link.gather_before_waking();
    events_.push_back({link.fd(), static_cast<short>(input | (link.has_outgoing() ? POLLOUT : 0)), 0});
  }
  poll(events_.data(), events_.size(), longest_nap_ms);
}

bool DirectExchange::owes(const Link& link) const {
  const auto owes_sums = [&](const Agency& agency) {
    return agency.owner == link.rank() && agency.sums_missing > 0;
  };
  const auto owes_parts = [&](const RemotePart& part) {
    return part.agent == link.rank() && chunks_to_sum_ > 0;
  };
  return link.has_outgoing() || std::ranges::any_of(agencies_, owes_sums) ||
         std::ranges::any_of(remote_parts_, owes_parts);
}

std::vector<int> DirectExchange::silent_ranks() const {
  std::vector<int> ranks;
  for (const Link& link : links_) {
    if (owes(link)) ranks.push_back(link.rank());
  }
  return ranks;
}

}  // namespace lockstep::comm
