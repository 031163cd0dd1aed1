#pragma once

#include <future>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/step/parameter_io.h"

namespace lockstep::runtime {

/// All that one checkpoint holds, copied out of the replica.
struct CheckpointContent {
  std::int64_t step = 0;
  std::vector<NamedTensor> weights;
  std::vector<NamedTensor> optimizer;
  std::string state;  ///< JSON
};

/// Writes checkpoints on a thread of its own, one at a time, while training goes on.
class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointDirectory directory, std::int64_t keep);
  ~CheckpointWriter();  ///< waits
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// The staged copy, for the caller to fill again; waits until the last one is written.
  CheckpointContent& staging();
  /// Begins to write the staged copy.
  void start();
  /// Until all is on the disk. An error of the last write is thrown here, or by `staging`, or by `check`.
  void wait();
  /// Throws the error of a write that has failed; cheap, does not wait.
  void check();

 private:
  void write() const;

  const CheckpointDirectory directory_;
  const std::int64_t keep_;
  CheckpointContent content_;
  std::future<void> writing_;
};

}  // namespace lockstep::runtime
