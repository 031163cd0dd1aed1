#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/base/division.h"
#include "kernels/base/dtype.h"
#include "runtime/performance/timeline.h"
#include "runtime/plan/plan.h"

namespace lockstep::runtime {

/// Ranks in blocks on equal nodes, the last of which may have fewer.
struct Cluster {
  int ranks = 1;
  int ranks_per_node = 1;
  double link_bytes_per_s = 0;  ///< of each node, in each direction at once, without the headers of packets

  int nodes() const { return parts_of(ranks, ranks_per_node); }
  int most_on_a_node() const { return ranks < ranks_per_node ? ranks : ranks_per_node; }
};

/// What was measured of the ranks of one node, as many as compute at the same time.
struct NodeTimes {
  std::vector<WorkTimes> work;            ///< by plan of a step, update included
  std::vector<double> memory_all_reduce;  ///< by bucket: seconds between the ranks of a node alone
  double memory_seconds_per_byte = 0;     ///< of those exchanges together
  bool spare_core = false;                ///< a rank has a core on which its exchange disturbs no compute
};

/// What was measured of TCP exchanges between two ranks.
struct TcpTimes {
  /// An exchange of next to nothing, and of each byte that a rank sends, and receives at the same time.
  struct Cost {
    double latency = 0;
    double per_byte = 0;
  };
  Cost alone;  ///< seconds while nothing else runs
  Cost busy;   ///< seconds while the core computes
  Cost core;   ///< of these, what compute loses
};

/// The time of one bucket's exchange on `cluster`: through memory on one node; else all nodes send and
/// receive at once, each further node costs a latency, and the slowest of link, network and core sets the
/// pace.
ExchangeTime exchange_time(const Cluster& cluster, const NodeTimes& node, const TcpTimes& tcp,
                           std::size_t bucket, std::size_t bytes, DType gradient_dtype);

/// The same of lists of rows, each of `bytes`: every node receives those of all others.
ExchangeTime rows_exchange_time(const Cluster& cluster, const NodeTimes& node, const TcpTimes& tcp,
                                std::size_t bytes);

/// The timeline of a whole step on `cluster`, whose nodes are as `node` was measured: of `plans` of its
/// micro-batches in their order, the same for any number of ranks. Between nodes updates are left to the next
/// step if the plans' request says so and a run could do it. Embeddings go as rows where so many ranks do
/// that; adding them up is taken to cost no more than writing the dense gradient did.
Timeline predict(std::span<const Plan> plans, const Cluster& cluster, const NodeTimes& node,
                 const TcpTimes& tcp);

}  // namespace lockstep::runtime
