#pragma once

#include <nccl.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "tests/simgpu/nccl/communicator.h"
#include "tests/simgpu/nccl/failure.h"

namespace simgpu::nccl {

using CommunicatorPtr = std::shared_ptr<Communicator>;

/// All communicators that this process ever had.
class Library {
 public:
  static Library& instance();

  ncclComm_t add(CommunicatorPtr rank);
  /// Reports the mistake when it is no communicator, or one that ended.
  CommunicatorPtr find(ncclComm_t handle);
  /// Whether this process is another rank of the same communicator too.
  bool has_other_rank_of(const Communicator& rank);

  std::string last_error();
  void set_last_error(const std::string& text);

 private:
  std::mutex mutex_;
  std::unordered_map<ncclComm_t, CommunicatorPtr> all_;
  std::string last_error_;
};

/// A thread's stay in a call on a communicator: reports a second thread, which NCCL does not support.
class Stay {
 public:
  Stay(Communicator& rank, const char* function);
  ~Stay();
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;

 private:
  Communicator& rank_;
};

/// Failure unless the previous call on a non-blocking communicator was polled until it was done, and nothing
/// failed since.
void require_ready(Communicator& rank);

void require(bool condition, ncclResult_t result, const std::string& text);

/// What a call answers: `action`'s result, or that of the Failure by which it refuses.
template <class Action>
ncclResult_t answer(Action action) {
  try {
    return action();
  } catch (const Failure& failure) {
    Library::instance().set_last_error(failure.what());
    return failure.result;
  }
}

}  // namespace simgpu::nccl
