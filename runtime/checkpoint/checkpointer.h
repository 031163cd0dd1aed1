#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/run_directory.h"
#include "runtime/checkpoint/run_state.h"
#include "runtime/weights/parameter_io.h"

namespace lockstep::runtime {

/// Ranks whose weights differ from those of most ranks; in a tie, ranks whose weights differ from rank 0's.
std::vector<int> diverged_ranks(const std::vector<std::string>& hashes);

/// `hashes`: of each rank's weights, by rank. CommError names the replicas that have diverged.
void require_equal_replicas(const std::vector<std::string>& hashes, std::int64_t step);

/// NonFiniteError that names the tensor.
[[noreturn]] void throw_not_finite(const std::string& tensor, std::int64_t step);

/// The contents of one checkpoint, copied from the replica.
struct CheckpointContent {
  std::int64_t step = 0;
  std::vector<NamedTensor> weights;
  std::vector<NamedTensor> optimizer;
  std::string state;  ///< JSON
  KeptNames names{};
};

/// What happens behind a checkpoint. Where training ends, no copy of the replica is made: a run that fits its
/// memory can always be saved.
enum class Afterwards { continues, ends };

/// Writes checkpoints, one at a time: copies on a thread of its own, beside training.
class CheckpointWriter {
 public:
  /// `activity` is told what a wait for the writer waits for, and that it gets on.
  CheckpointWriter(CheckpointDirectory directory, std::int64_t keep, Activity* activity = nullptr);
  ~CheckpointWriter();  ///< waits
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// The staged copy, for the caller to fill; waits until the previous one is written.
  CheckpointContent& staging();
  /// Starts to write the staged copy.
  void start();
  /// Writes tensors that are read as they are written; of `staging` step, state and names.
  void write(const TensorSource& weights, const TensorSource& optimizer);
  /// Waits until the copy is on the disk. `wait`, `staging` and `check` throw an error of the last write.
  void wait();
  /// Throws the error of a write that has failed; cheap, does not wait.
  void check();

 private:
  template <class Tensors>
  void write_files(const Tensors& weights, const Tensors& optimizer) const;
  std::string describe() const;
  void now_at(const char* file) const;

  const CheckpointDirectory directory_;
  const std::int64_t keep_;
  Activity* const activity_;
  CheckpointContent content_;
  mutable std::atomic<const char*> file_{""};  ///< that is being written
  std::future<void> writing_;
};

/// Saves a run during training. Every rank has one; ranks with `run_directory.writes_checkpoints` write.
class Checkpointer {
 public:
  /// `names` are kept with the weights. `saved_step`: step of the checkpoint in RUN/ that the run
  /// resumes from, to which `latest` moves.
  Checkpointer(comm::Communicator& communicator, const ParameterIO& replica,
               const RunDirectory& run_directory, const Options& options, KeptNames names,
               std::optional<std::int64_t> saved_step, Activity* activity);

  bool due(std::int64_t step) const { return every_ > 0 && step % every_ == 0; }
  /// Collective, between two updates; does nothing for a step that is saved. Compares the replicas, copies
  /// this one, and starts to write the copy, or where training ends writes it. CommError names a replica that
  /// has diverged, NonFiniteError a tensor that is not finite; nothing is saved then.
  void save(RunState state, Afterwards afterwards);
  /// Throws the error of a failed write; does not wait.
  void check();
  /// Waits until everything is on the disk.
  void wait();
  /// Whether the replicas of this step were compared and saved.
  bool has_saved(std::int64_t step) const { return step == saved_step_; }
  /// Folder of the last saved checkpoint, of which there must be one.
  std::filesystem::path last() const { return directory_.path_of(saved_step_.value()); }

 private:
  /// Takes the memory of copies before training: DeviceError where there is too little.
  void reserve();
  /// Copies the replica; the first tensor that is not finite.
  std::string stage();
  /// The same without a copy.
  std::string look_through() const;

  comm::Communicator& communicator_;
  const ParameterIO replica_;
  const KeptNames names_;
  const CheckpointDirectory directory_;
  const std::int64_t every_;
  Activity* const activity_;
  std::optional<CheckpointWriter> writer_;
  std::optional<std::int64_t> saved_step_;
};

}  // namespace lockstep::runtime
