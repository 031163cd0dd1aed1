#pragma once

#include <nccl.h>

#include <vector>

#include "tests/simgpu/nccl/call.h"
#include "tests/simgpu/nccl/library.h"

namespace simgpu::nccl {

/// A checked call, to be enqueued on its stream.
struct Issued {
  CommunicatorPtr rank;
  Call call;
  const void* send;
  void* receive;
  cudaStream_t stream;
};

/// What this thread called since its outermost ncclGroupStart.
class Group {
 public:
  static Group& of_this_thread();

  bool is_open() const { return depth_ > 0; }
  void open() { ++depth_; }
  /// Starts everything when it is the outermost.
  ncclResult_t close();

  void add(CommunicatorPtr joining) { joining_.push_back(std::move(joining)); }
  void add(Issued collective) { collectives_.push_back(std::move(collective)); }
  /// The whole group fails with its first refused call.
  void refuse(ncclResult_t result);

 private:
  ncclResult_t start();

  int depth_ = 0;
  ncclResult_t refused_ = ncclSuccess;
  std::vector<CommunicatorPtr> joining_;
  std::vector<Issued> collectives_;
};

/// Starts collectives of one communicator outside of a group, or at its end.
ncclResult_t start(const CommunicatorPtr& rank, std::vector<Issued> collectives);

}  // namespace simgpu::nccl
