#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/graph.h"

namespace lockstep::runtime {

/// Where a parameter lies in the parameter arena; its gradient and its optimizer state lie at the same place
/// in theirs.
struct ArenaSlice {
  std::size_t parameter = 0;  ///< index in Graph::parameters()
  std::string name;
  std::size_t offset = 0;  ///< bytes, a multiple of 64
  std::size_t bytes = 0;   ///< padding of the layout included, padding between slices not
};

/// A contiguous part of the gradient arena that is exchanged at once.
struct Bucket {
  std::size_t offset = 0;
  std::size_t bytes = 0;  ///< a multiple of 64
  std::string first_parameter;
};

/// The flat arenas: slices in the order in which gradients become ready, so that nothing is packed or
/// unpacked.
struct ArenaPlan {
  std::vector<ArenaSlice> slices;
  std::vector<Bucket> buckets;
  std::size_t parameter_bytes = 0;  ///< of the parameter arena, and of each optimizer state
  std::size_t control_offset = 0;   ///< the control block follows the last gradient in the gradient arena
  std::size_t gradient_bytes = 0;   ///< parameter_bytes and the control block
};

struct BucketLimits {
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t bytes = std::size_t{25} << 20;
};

/// PyTorch's rule: a bucket is closed by the parameter that brings it to its limit.
ArenaPlan assign_buckets(const model::Graph& graph, const BucketLimits& limits);

/// For each bucket the index of the node of `graph` that completes its last gradient.
std::vector<std::size_t> bucket_ready_nodes(const model::Graph& graph, const ArenaPlan& arena);

/// For each bucket the index of the last node that reads one of its parameters: no update may come before it.
std::vector<std::size_t> bucket_last_readers(const model::Graph& graph, const ArenaPlan& arena);

}  // namespace lockstep::runtime
