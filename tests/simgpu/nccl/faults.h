#pragma once

#include <cstdint>

namespace simgpu::nccl {

/// How often a non-blocking call answers ncclInProgress before it is done: 0 to 3 times, by SIMGPU_NCCL_SEED
/// (default 0), the rank and the number of the call.
class Polls {
 public:
  explicit Polls(int rank);
  int draw();

 private:
  std::uint64_t state_;
};

/// SIMGPU_NCCL_FAIL_AT=n or n@rank: the n-th collective (from 1) ends in an asynchronous error, on every rank
/// or on that one.
bool fails_at(std::uint64_t collective, int rank);

/// SIMGPU_NCCL_ABSENT=rank: that rank never comes to the meeting, its ncclCommInitRank does not return.
bool is_absent(int rank);

/// SIMGPU_NCCL_DEAD_PEER=error: a lost peer is an asynchronous error. Without it ranks wait for ever, as NCCL
/// mostly does for peers of its own node.
bool dead_peer_is_error();

/// SIMGPU_NCCL_VERSION=2.28.9: which version's ways the library has, as ncclGetVersion gives it
/// (22809); 2.30.7 without it.
int version();

/// SIMGPU_NCCL_LINK=pcie: the GPUs of a host are not fully connected by NVLink.
bool is_fully_connected();

}  // namespace simgpu::nccl
