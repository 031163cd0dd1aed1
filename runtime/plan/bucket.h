#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/alignment.h"
#include "kernels/row_list.h"
#include "model/graph.h"
#include "runtime/plan/exchange_calls.h"

namespace lockstep::runtime {

constexpr std::int64_t elements_of_a_line(DType dtype) {
  return static_cast<std::int64_t>(cache_line / size_of(dtype));
}

/// A parameter's slice of the parameter arena; its gradient, if it is learned, has the same slice of its
/// arena, and so has its optimizer state where no updates are sharded. In elements.
struct ArenaSlice {
  std::size_t parameter = 0;  ///< index in Graph::parameters()
  std::string name;
  std::int64_t first = 0;  ///< on a cache line
  std::int64_t count = 0;  ///< padding of the layout included, padding between slices not
};

/// A slice of the arena of buffers, which are not learned. In words of 32 bits.
struct BufferSlice {
  std::size_t buffer = 0;  ///< index in Graph::buffers()
  std::string name;
  std::int64_t first = 0;  ///< on a cache line
};

/// A slice of the arena of statistics, which one exchange sums over the ranks. In elements of f64.
struct StatisticsSlice {
  std::size_t statistics = 0;  ///< index in Graph::statistics()
  std::string name;
  std::int64_t first = 0;  ///< on a cache line
  std::int64_t count = 0;
};

/// The memory of the lists of rows that the ranks add to a parameter's gradient: rank r's is the r-th. In
/// bytes.
struct RowsSlice {
  std::size_t parameter = 0;  ///< index in Graph::parameters()
  std::string name;
  std::int64_t first = 0;  ///< on a cache line
  kernels::RowListShape list;
  int ranks = 1;
  std::size_t bucket = 0;   ///< whose update waits for them
  bool overwrites = false;  ///< they are the whole gradient

  std::int64_t list_bytes() const { return static_cast<std::int64_t>(list.bytes()); }
  std::int64_t bytes() const { return ranks * list_bytes(); }
};

/// A contiguous part of the gradient arena that is summed at once. In elements.
struct Bucket {
  std::int64_t first = 0;
  std::int64_t count = 0;       ///< a multiple of ranks x 64 bytes, so that each rank's shard is a slice, too
  std::int64_t decayed = 0;     ///< its first elements, on which weight decay acts
  std::string first_parameter;  ///< which lies at `first`
  bool has_copies = false;      ///< layers read parameters of it in their compute type
  bool with_control = false;    ///< the last that is exchanged: its exchange sums the control block, too
  bool only_rows = false;       ///< is not exchanged: all of its gradients go as rows
  /// Each rank updates its shard alone, and all gather the parameters.
  bool shards_update = false;
  std::int64_t states_first = 0;  ///< in this rank's arenas of optimizer state
};

/// The flat arenas: slices in the order in which gradients become ready, so that nothing is packed or
/// unpacked. The parameter arena, that of its copies, the gradient arena and one arena for each optimizer
/// state have the same slices; the control block is an arena of its own.
struct ArenaPlan {
  std::vector<ArenaSlice> slices;
  std::vector<Bucket> buckets;
  DType dtype = DType::f32;           ///< of parameters and optimizer state
  DType gradient_dtype = DType::f32;  ///< of gradients; f32 or bf16
  DType copy_dtype = DType::f32;      ///< of copies of the parameters; f32: there are none
  bool has_gradients = false;         ///< a plan of training has laid it out
  int ranks = 1;                      ///< that each take a shard of a bucket
  std::int64_t elements = 0;          ///< of each of these arenas
  std::vector<ArenaSlice> frozen;     ///< behind these elements, in the parameter arena alone
  std::int64_t frozen_elements = 0;
  std::vector<BufferSlice> buffers;
  std::int64_t buffer_elements = 0;  ///< words of 32 bits
  std::vector<StatisticsSlice> statistics;
  std::int64_t statistics_elements = 0;
  std::vector<RowsSlice> rows;  ///< in the order in which they are complete
  std::int64_t rows_bytes = 0;
  /// In the order in which they become ready in the run's first plan; where that is the same node, buckets
  /// come first. All plans keep it: ranks may run different ones in the same step.
  std::vector<PlannedCall> exchanges;

  std::size_t bytes() const { return static_cast<std::size_t>(elements) * size_of(dtype); }
  std::size_t gradient_bytes() const { return static_cast<std::size_t>(elements) * size_of(gradient_dtype); }
  std::size_t parameter_bytes() const {
    return static_cast<std::size_t>(elements + frozen_elements) * size_of(dtype);
  }
  std::size_t copy_bytes() const {
    return is_half(copy_dtype) ? static_cast<std::size_t>(elements + frozen_elements) * size_of(copy_dtype)
                               : 0;
  }
  std::size_t buffer_bytes() const { return static_cast<std::size_t>(buffer_elements) * sizeof(float); }
  std::size_t statistics_bytes() const {
    return static_cast<std::size_t>(statistics_elements) * sizeof(double);
  }
};

/// How gradients are cut into buckets.
struct BucketLimits {
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t bytes = std::size_t{25} << 20;
  int ranks = 1;  ///< that each take a shard of a bucket
  /// Where forward waits for buckets one by one: a sixteenth of all gradients if that is less, but not below
  /// 128 KiB, about a millisecond of 1 Gbit/s.
  bool fine = false;
  /// Weight decay only of parameters with two dimensions or more, which come first in their bucket.
  bool decays_matrices_only = false;
};

/// PyTorch's rule: a bucket is closed by the parameter that brings it to its limit, or to an eighth of all
/// gradients if that is less, but not below `first_bytes`. Parameters whose gradients go as rows alone are in
/// a last one.
ArenaPlan assign_buckets(const model::Graph& graph, const BucketLimits& limits);

/// Marks the buckets whose updates are sharded: of 2^18 elements or more, of which Adam moves 7 MiB.
void shard_updates(ArenaPlan& arena);

/// Whether ranks exchange parameters, so that these lie in memory of the communicator's.
bool shards_updates(const ArenaPlan& arena);

/// Of how many of the bucket's elements a rank keeps the optimizer's state, and updates them.
std::int64_t updated_elements(const Bucket& bucket, int ranks);
/// Of how many elements a rank keeps the optimizer's state.
std::int64_t updated_elements(const ArenaPlan& arena);

/// How many of the buckets, the first ones, are exchanged.
std::size_t exchanged_buckets(const ArenaPlan& arena);

/// For each bucket the index of the node of `graph` that completes its last gradient.
std::vector<std::size_t> bucket_ready_nodes(const model::Graph& graph, const ArenaPlan& arena);

/// For each slice of rows the index of the node that writes this rank's list.
std::vector<std::size_t> rows_ready_nodes(const model::Graph& graph, const ArenaPlan& arena);

/// For each bucket the index of the last node that reads one of its parameters, itself, its copy or a
/// view: no update may come before it.
std::vector<std::size_t> bucket_last_readers(const model::Graph& graph, const ArenaPlan& arena);

/// The same of the first, before which an update must have come that was left to this step; the number of
/// nodes if there is none.
std::vector<std::size_t> bucket_first_readers(const model::Graph& graph, const ArenaPlan& arena);

}  // namespace lockstep::runtime
