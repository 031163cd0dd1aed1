#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/deadline.h"

namespace simgpu::testing {

/// How a rank's process ended.
struct Outcome {
  int code = 0;  ///< of exit; 86: a mistake was reported; 137: it was killed, at the latest by the deadline
  std::string errors;  ///< what it wrote to stderr, and the text of the exception that ended it (code 1)
};

/// Runs `body(rank)` in one forked process per rank. Device memory belongs to a process: nothing may touch
/// CUDA in the parent.
std::vector<Outcome> run_ranks(int ranks, const std::function<void(int rank)>& body,
                               lockstep::Seconds limit = lockstep::Seconds(20));

/// Empty when all ended with code 0; else why not, a line per rank.
std::string complaints(const std::vector<Outcome>& outcomes);

void check(ncclResult_t result);
void check(cudaError_t error);
void require(bool condition, const std::string& text);

ncclUniqueId fresh_id();

/// A rank's device, communicator and stream, on a device with the rank's number.
struct Rank {
  int rank;
  int ranks;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;

  /// Joins without blocking and polls until all are there.
  Rank(const ncclUniqueId& id, int the_rank, int the_ranks);
  /// Polls until the last call is done; its error.
  ncclResult_t poll() const;
  /// Of a call that may answer ncclInProgress, or ncclSuccess before it is done.
  void complete(ncclResult_t result) const;
  void close();
};

ncclConfig_t non_blocking();

/// Device memory with values, until the process ends.
template <class T>
T* on_device(const std::vector<T>& values) {
  void* address = nullptr;
  check(cudaMalloc(&address, values.size() * sizeof(T)));
  check(cudaMemcpy(address, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  check(cudaStreamSynchronize(nullptr));
  return static_cast<T*>(address);
}

template <class T>
std::vector<T> to_host(const T* device, std::size_t count) {
  std::vector<T> values(count);
  check(cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

/// A byte from one process to another: "I am there".
class Signal {
 public:
  Signal();
  void send() const;
  void wait() const;

 private:
  int ends_[2];
};

}  // namespace simgpu::testing
