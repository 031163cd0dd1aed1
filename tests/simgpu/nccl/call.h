#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>

namespace simgpu::nccl {

/// A collective as its caller described it: must be equal on all ranks.
struct Call {
  enum class Kind : int { all_reduce, reduce_scatter, all_gather, reduce, broadcast };

  Kind kind = Kind::all_reduce;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;  ///< reductions only
  int root = 0;              ///< of a reduce or a broadcast
  std::size_t count = 0;     ///< elements, in the sense of the NCCL function
  bool captured = false;     ///< in a CUDA graph: on all ranks or on none

  bool operator==(const Call&) const = default;
};

constexpr bool is_reduction(Call::Kind kind) {
  return kind == Call::Kind::all_reduce || kind == Call::Kind::reduce_scatter || kind == Call::Kind::reduce;
}

/// 0 for a value that is no type.
std::size_t type_bytes(ncclDataType_t type);

std::size_t send_bytes(const Call& call, int ranks);
/// None on a rank that a reduce has no result for.
std::size_t receive_bytes(const Call& call, int rank, int ranks);

const char* function_name(Call::Kind kind);
/// "ncclAllReduce of 256 float32".
std::string describe(const Call& call);

}  // namespace simgpu::nccl
