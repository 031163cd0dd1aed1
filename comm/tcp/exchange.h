#pragma once

#include <poll.h>

#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "comm/reduce/reduce.h"
#include "comm/shm/node_ranks.h"
#include "comm/tcp/chunks.h"
#include "comm/tcp/link.h"
#include "comm/tcp/placement.h"

namespace lockstep::comm {

/// Why an exchange between nodes stopped: these ranks closed their connection, left, or were silent.
struct PeerTrouble : std::exception {
  enum class Kind { lost, left, silent };

  PeerTrouble(Kind of, std::vector<int> with, std::string because)
      : kind(of), ranks(std::move(with)), problem(std::move(because)) {}
  const char* what() const noexcept override { return "an exchange between nodes stopped"; }

  Kind kind;
  std::vector<int> ranks;
  std::string problem;  ///< lost: what broke the connection; empty: the other end closed it
};

/// Collectives over ranges of arenas between all ranks of all nodes, in place. An all-reduce has two phases,
/// each a collective of its own: each owner gets its shard from all nodes and adds in the tree's order
/// (reduce-scatter), and sends its shard to all (all-gather). In chunks, so that sending, adding and
/// receiving overlap, and both directions of every connection at once.
class TcpExchange {
 public:
  TcpExchange(const Placement& placement, NodeRanks& node, std::vector<Link>& links);

  /// Within a call of `node`, whose arenas the ranges are in. Throws PeerTrouble, or CommError when the
  /// node's ranks fail. `behind_compute` as in ExchangeLabel.
  void all_reduce(std::span<const ArenaRange> ranges, bool behind_compute = false) {
    run({.sums = true, .spreads = true}, ranges, behind_compute);
  }
  void reduce_scatter(const ArenaRange& range, bool behind_compute = false) {
    run({.sums = true, .spreads = false}, std::span(&range, 1), behind_compute);
  }
  void all_gather(const ArenaRange& range, bool behind_compute = false) {
    run({.sums = false, .spreads = true}, std::span(&range, 1), behind_compute);
  }

  /// Of each shard its `filled_part`. A chunk has what is in use of it, nothing if need be, so that the
  /// numbers of chunks are known beforehand.
  void all_gather_filled(const ArenaRange& range, bool behind_compute = false) {
    run({.sums = false, .spreads = true, .only_filled = true}, std::span(&range, 1), behind_compute);
  }

  /// When the first bytes of the last peer arrived in the last collective.
  Clock::time_point all_here() const { return all_here_; }

 private:
  /// What this rank sends to, and gets from, an owner whose proxy it is.
  struct OutgoingPartials {
    int owner;
    std::size_t link;
    ChunkRing ring;          ///< partial sums that wait to be sent
    std::size_t chunks = 0;  ///< that this rank sends
    std::size_t next_chunk = 0;
    std::size_t next_part = 0;
    std::size_t sums_missing = 0;  ///< chunks of the owner's shard
    bool is_done() const { return next_chunk == chunks && sums_missing == 0; }
  };

  std::size_t link_to(int rank) const;

  /// What a collective does with shards.
  struct Phases {
    bool sums;                 ///< owners get partial sums and add them
    bool spreads;              ///< owners send their shards to all
    bool only_filled = false;  ///< of a shard no more than its filled part
  };
  void run(Phases phases, std::span<const ArenaRange> ranges, bool behind_compute);
  void start(std::span<const ArenaRange> ranges);
  void make_room();
  void post_partials();
  void post_partial(OutgoingPartials& outgoing);
  std::byte* place(std::size_t link, const ChunkHeader& header);
  /// CommError unless it belongs to this call, is the next of its kind on this link and has the bytes of one.
  void check(std::size_t link, const ChunkHeader& header) const;
  bool has_bytes_of_its_kind(std::size_t link, const ChunkHeader& header) const;
  void arrived(std::size_t link, const ChunkHeader& header);
  void sum_chunk(std::size_t chunk);
  void sum_alone();
  void spread_shard(const ArenaRange& range);
  void post_sum(const ArenaRange& range, std::size_t chunk);
  ChunkHeader header_of(ChunkHeader::Kind kind, std::size_t chunk, std::size_t part = 0) const {
    return {.kind = kind,
            .call = node_.call().number,
            .signature = signature_,
            .part = static_cast<std::uint16_t>(part),
            .chunk = static_cast<std::uint16_t>(chunk)};
  }

  void expect_chunks();
  OutgoingPartials& outgoing_for(const Link& from);
  std::size_t remote_part(const Link& from, std::uint16_t index) const;
  void move_bytes();
  bool done() const;
  void wait_for_links();
  /// Whether this call still sends or receives something over the link.
  bool owes(const Link& link) const;
  std::vector<int> silent_ranks() const;

  NodeRanks& node_;
  std::vector<Link>& links_;
  const int rank_;
  const int ranks_;
  const ReduceSchedule schedule_;
  std::vector<OutgoingPartials> outgoing_;
  std::vector<ChunkRing> received_;  ///< by remote part: chunks of this rank's shard
  std::vector<ChunkOrder> orders_;   ///< by link

  Phases phases_{};
  Chunks chunks_;
  std::uint32_t signature_ = 0;
  std::vector<std::size_t> parts_missing_;  ///< by chunk of this rank's shard
  std::size_t chunks_to_sum_ = 0;
  std::size_t wake_bytes_ = 1;   ///< bytes of a chunk
  std::size_t least_chunk_ = 0;  ///< bytes, of this call
  std::vector<char> heard_;      ///< by link: something arrived in this call
  std::size_t unheard_ = 0;
  Clock::time_point all_here_;
  std::vector<ReduceInput> operands_;  ///< of the sum being taken
  std::vector<std::byte*> outputs_;
  std::vector<pollfd> events_;
  Deadline next_link_check_ = Deadline::in(Seconds(0));
};

}  // namespace lockstep::comm
