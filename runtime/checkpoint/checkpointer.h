#pragma once

#include <filesystem>
#include <optional>

#include "comm/communicator.h"
#include "runtime/checkpoint/run_directory.h"
#include "runtime/checkpoint/run_state.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/step/parameter_io.h"

namespace lockstep::runtime {

/// Saves a run while it goes on. Every rank has one; those that `run_directory.writes_checkpoints` write.
class Checkpointer {
 public:
  /// `saved_step`: of the checkpoint in RUN/ that the run goes on from; -1: there is none.
  Checkpointer(comm::Communicator& communicator, const ParameterIO& replica,
               const RunDirectory& run_directory, const Options& options, std::int64_t saved_step);

  bool due(std::int64_t step) const { return every_ > 0 && step % every_ == 0; }
  /// Collective, between an update and the next; nothing is done for a step that is saved. Compares the
  /// replicas, copies this one, and begins to write the copy. CommError names a replica that has diverged;
  /// nothing is saved then.
  void save(RunState state);
  /// Throws what went wrong in a write since; does not wait.
  void check();
  /// Until all is on the disk.
  void wait();
  /// The replicas were compared, and are on the disk, as they are after this step.
  bool has_saved(std::int64_t step) const { return step == saved_step_; }
  /// Of the last checkpoint that was saved.
  std::filesystem::path last() const { return directory_.path_of(saved_step_); }

 private:
  comm::Communicator& communicator_;
  const ParameterIO replica_;
  const model::OptimizerOptions optimizer_;
  const CheckpointDirectory directory_;
  const std::int64_t every_;
  std::optional<CheckpointWriter> writer_;
  std::int64_t saved_step_;
};

}  // namespace lockstep::runtime
