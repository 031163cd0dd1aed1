#include "runtime/checkpoint/checkpointer.h"

#include <chrono>

#include <fmt/format.h>

#include "runtime/checkpoint/replica_divergence.h"

namespace lockstep::runtime {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// What a rank tells the others before a checkpoint: "<fingerprint of its weights> <time>".
struct ReplicaDigest {
  std::string fingerprint;
  std::string time;
};

ReplicaDigest replica_digest_from(const std::string& text) {
  const std::size_t space = text.find(' ');
  return {text.substr(0, space), text.substr(space + 1)};
}

}  // namespace

Checkpointer::Checkpointer(comm::Communicator& communicator, const ParameterIO& replica,
                           const RunDirectory& run_directory, const Options& options, std::int64_t saved_step)
    : communicator_(communicator),
      replica_(replica),
      optimizer_(options.optimizer),
      directory_(run_directory.checkpoints()),
      every_(options.checkpoint_every),
      saved_step_(saved_step) {
  if (run_directory.writes_checkpoints) writer_.emplace(directory_, options.keep);
}

void Checkpointer::save(RunState state) {
  if (has_saved(state.step)) return;
  const std::string mine = fmt::format("{} {:.3f}", replica_.fingerprint(), seconds_since_1970());
  std::vector<std::string> fingerprints;
  for (const std::string& text : communicator_.all_gather(mine)) {
    // Rank 0's clock for all, so that copies on several disks are the same files.
    if (fingerprints.empty()) state.time = std::stod(replica_digest_from(text).time);
    fingerprints.push_back(replica_digest_from(text).fingerprint);
  }
  require_no_drift(fingerprints, state.step);
  saved_step_ = state.step;
  if (!writer_) return;
  CheckpointContent& content = writer_->staging();
  content.step = state.step;
  content.state = to_json(state);
  replica_.parameters(content.weights);
  replica_.optimizer_state(optimizer_, content.optimizer);
  writer_->start();
}

void Checkpointer::check() {
  if (writer_) writer_->check();
}

void Checkpointer::wait() {
  if (writer_) writer_->wait();
}

}  // namespace lockstep::runtime
