#pragma once

#include <poll.h>

#include <cstddef>
#include <vector>

#include "comm/direct/link.h"
#include "comm/direct/placement.h"
#include "comm/host/node_ranks.h"

namespace lockstep::comm {

/// Why an exchange between nodes stopped: these ranks closed their connection, left, or were silent.
struct PeerTrouble {
  enum class Kind { lost, left, silent };
  Kind kind;
  std::vector<int> ranks;
};

/// Sums a range of the arena over all ranks of all nodes, in place, in the tree's order: each owner gets its
/// slice from all nodes, adds, and sends the sum to all. In chunks, so that sending, adding and receiving
/// overlap, and both directions of every connection at once.
class DirectExchange {
 public:
  DirectExchange(const Placement& placement, NodeRanks& node, std::vector<Link>& links);

  /// Within a call of `node`. Throws PeerTrouble, or CommError when the node's ranks fail.
  void all_reduce(std::size_t offset, std::size_t bytes, DType dtype);

  /// When the last peer's first bytes came in the last all_reduce.
  Clock::time_point all_here() const { return all_here_; }

 private:
  /// A part of the sum that another node makes of this rank's slice.
  struct RemotePart {
    int agent;            ///< the rank that sends it
    std::uint16_t index;  ///< among its node's subtrees
    std::size_t leaf;     ///< of the owner's tree
  };
  /// What this rank sends to, and gets from, an owner whose agent it is.
  struct Agency {
    int owner;
    std::size_t link;
    std::size_t next_chunk = 0;
    std::size_t next_part = 0;
    std::size_t sums_missing = 0;
  };
  /// Bytes of the arena.
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;

    std::size_t size() const { return end - begin; }
  };

  void find_remote_parts();
  void find_agencies();
  std::size_t link_to(int rank) const;

  void start(std::size_t offset, std::size_t bytes, DType dtype);
  Range slice_of(int owner) const;
  Range chunk_of(int owner, std::size_t chunk) const;
  std::size_t chunks_of(int owner) const;
  std::byte* at(int member, std::size_t offset) const;

  void post_partials();
  void post_partial(std::size_t agency);
  std::byte* place(const Link& from, const ChunkHeader& header);
  void arrived(const Link& from, const ChunkHeader& header);
  void sum_chunk(std::size_t chunk);
  void sum_alone();
  void spread_sum(int owner, std::size_t chunk);

  Agency& agency_for(const Link& from);
  std::size_t remote_part(const Link& from, std::uint16_t index) const;
  void move_bytes();
  void grow_rings();
  bool done() const;
  void wait_for_links();
  /// Does it still have to send something, or to take something?
  bool owes(const Link& link) const;
  std::vector<int> silent_ranks() const;

  const Placement& placement_;
  NodeRanks& node_;
  std::vector<Link>& links_;
  const int rank_;
  SumTree tree_;  ///< over this node's single ranks and the other nodes' parts
  std::vector<std::size_t> local_leaves_;
  std::vector<RemotePart> remote_parts_;
  std::vector<Agency> agencies_;
  std::vector<SumTree> subtree_trees_;  ///< by this node's subtrees

  std::size_t offset_ = 0;
  std::size_t bytes_ = 0;
  DType dtype_ = DType::f32;
  std::vector<std::size_t> parts_missing_;  ///< by chunk of this rank's slice
  std::size_t chunks_to_sum_ = 0;
  std::vector<char> heard_;  ///< by link: something came in this call
  std::size_t unheard_ = 0;
  Clock::time_point all_here_;
  std::vector<std::vector<std::byte>> incoming_;  ///< by remote part: chunks of this rank's slice, a ring
  std::vector<std::vector<std::byte>> outgoing_;  ///< by agency: chunks that wait to be sent, a ring

  std::vector<const std::byte*> inputs_;  ///< of the sum being taken
  std::vector<std::byte*> outputs_;
  std::vector<pollfd> events_;
};

}  // namespace lockstep::comm
