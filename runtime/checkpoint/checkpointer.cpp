#include "runtime/checkpoint/checkpointer.h"

#include <algorithm>
#include <chrono>
#include <new>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "kernels/base/signals.h"

namespace lockstep::runtime {
namespace {

bool is_done(const std::future<void>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A rank's message to the others before a checkpoint.
struct ReplicaDigest {
  std::string fingerprint;  ///< of its weights
  double time = 0;          ///< by its clock
  std::string not_finite;   ///< a tensor that must not be saved
};

std::string to_text(const ReplicaDigest& digest) {
  return Json{{"fingerprint", digest.fingerprint}, {"time", digest.time}, {"not_finite", digest.not_finite}}
      .dump();
}

ReplicaDigest replica_digest_from(const std::string& text) {
  const Json json = Json::parse(text);
  return {.fingerprint = json["fingerprint"].get<std::string>(),
          .time = json["time"].get<double>(),
          .not_finite = json["not_finite"].get<std::string>()};
}

}  // namespace

std::vector<int> diverged_ranks(const std::vector<std::string>& hashes) {
  const std::string* usual = &hashes.front();
  for (const std::string& hash : hashes) {
    if (std::ranges::count(hashes, hash) > std::ranges::count(hashes, *usual)) usual = &hash;
  }
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != *usual) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

void require_equal_replicas(const std::vector<std::string>& hashes, std::int64_t step) {
  const std::vector<int> diverged = diverged_ranks(hashes);
  if (diverged.empty()) return;
  const bool tied = 2 * diverged.size() >= hashes.size();
  throw CommError(
      fmt::format("a replica has diverged: after step {} rank {} has other weights than {}; look for faulty "
                  "memory there, and go on from the last checkpoint with --resume auto",
                  step, fmt::join(diverged, ", "), tied ? "rank 0, and either may be wrong" : "the others"));
}

void throw_not_finite(const std::string& tensor, std::int64_t step) {
  throw NonFiniteError(
      fmt::format("{} is not finite after step {}, though the loss is: nothing is saved; lower --lr, or clip "
                  "gradients with --clip-grad-norm 1",
                  tensor, step));
}

CheckpointWriter::CheckpointWriter(CheckpointDirectory directory, std::int64_t keep, Activity* activity)
    : directory_(std::move(directory)), keep_(keep), activity_(activity) {}

CheckpointWriter::~CheckpointWriter() {
  if (!writing_.valid()) return;
  const Activity::Work waiting(activity_, [this] { return describe(); });
  writing_.wait();
}

CheckpointContent& CheckpointWriter::staging() {
  if (writing_.valid() && !is_done(writing_)) {
    log::warn("the checkpoint of step {} is still being written: training waits for the disk", content_.step);
  }
  wait();
  return content_;
}

void CheckpointWriter::start() {
  const SignalsBlocked on_the_new_thread;
  writing_ = std::async(std::launch::async, [this] { write_files(content_.weights, content_.optimizer); });
}

void CheckpointWriter::write(const TensorSource& weights, const TensorSource& optimizer) {
  const Activity::Work writing(activity_, [this] { return describe(); });
  write_files(weights, optimizer);
}

void CheckpointWriter::wait() {
  if (!writing_.valid()) return;
  const Activity::Work waiting(activity_, [this] { return describe(); });
  writing_.get();
}

std::string CheckpointWriter::describe() const {
  return fmt::format("waiting for the checkpoint of step {}, which is at {}", content_.step,
                     (directory_.path_of(content_.step) / file_.load()).string());
}

void CheckpointWriter::now_at(const char* file) const {
  file_ = file;
  if (activity_ != nullptr) activity_->advance();
}

void CheckpointWriter::check() {
  if (writing_.valid() && is_done(writing_)) writing_.get();
}

template <class Tensors>
void CheckpointWriter::write_files(const Tensors& weights, const Tensors& optimizer) const {
  directory_.add(content_.step, [&](const std::filesystem::path& folder) {
    now_at("model.safetensors");
    save_tensors(folder / "model.safetensors", weights, content_.names);
    now_at("optimizer.safetensors");
    save_tensors(folder / "optimizer.safetensors", optimizer);
    now_at("state.json");
    write_file_atomically(folder / "state.json", content_.state);
    now_at(manifest_file);
    write_manifest(folder, activity_);
    now_at("");
  });
  directory_.prune(content_.step, keep_);
}

Checkpointer::Checkpointer(comm::Communicator& communicator, const ParameterIO& replica,
                           const RunDirectory& run_directory, const Options& options, KeptNames names,
                           std::optional<std::int64_t> saved_step, Activity* activity)
    : communicator_(communicator),
      replica_(replica),
      names_(std::move(names)),
      directory_(run_directory.checkpoints()),
      every_(options.checkpoint_every),
      activity_(activity),
      saved_step_(saved_step) {
  if (!run_directory.writes_checkpoints) return;
  writer_.emplace(directory_, options.keep, activity_);
  if (every_ > 0) reserve();
  if (!saved_step) return;
  const Activity::Work work(activity_, "looking at " + directory_.folder().string());
  directory_.set_latest(*saved_step);
}

void Checkpointer::reserve() {
  CheckpointContent& content = writer_->staging();
  std::size_t bytes = 0;
  const auto allocate = [&](const std::vector<NamedTensor>& described, std::vector<NamedTensor>& into) {
    into = described;
    for (NamedTensor& tensor : into) {
      const std::size_t of_tensor = bytes_of(tensor.dtype, tensor.shape);
      bytes += of_tensor;
      tensor.values.resize(of_tensor / sizeof(float));
    }
  };
  try {
    allocate(replica_.weights().tensors, content.weights);
    allocate(replica_.optimizer_state().tensors, content.optimizer);
  } catch (const std::bad_alloc&) {
    throw DeviceError(fmt::format(
        "--checkpoint-every: no memory for a copy of weights and optimizer state, beyond {} bytes "
        "of it: raise the limit (ulimit -v, the container's memory), or leave the option out: a "
        "run that is stopped is saved without a copy",
        bytes));
  }
}

void Checkpointer::save(RunState state, Afterwards afterwards) {
  if (has_saved(state.step)) return;
  const bool copies = afterwards == Afterwards::continues || !replica_.has_whole_state();
  const Activity::Work saving(activity_, std::string(copies ? "copying the replica" : "reading the replica"),
                              Activity::Needs::peers);
  const std::string not_finite = copies ? stage() : look_through();
  const std::string mine = to_text(
      {.fingerprint = replica_.fingerprint(), .time = seconds_since_1970(), .not_finite = not_finite});
  std::vector<ReplicaDigest> digests;
  std::vector<std::string> fingerprints;
  for (const std::string& text : communicator_.all_gather(mine)) {
    digests.push_back(replica_digest_from(text));
    fingerprints.push_back(digests.back().fingerprint);
  }
  require_equal_replicas(fingerprints, state.step);
  for (const ReplicaDigest& digest : digests) {
    if (!digest.not_finite.empty()) throw_not_finite(digest.not_finite, state.step);
  }
  saved_step_ = state.step;
  if (!writer_) return;
  CheckpointContent& content = writer_->staging();
  content.step = state.step;
  content.names = names_;
  state.time = digests.front().time;  // rank 0's for all, so that copies on several disks are the same files
  content.state = to_json(state);
  copies ? writer_->start() : writer_->write(replica_.weights(), replica_.optimizer_state());
}

std::string Checkpointer::stage() {
  if (!writer_) {
    replica_.optimizer_state(communicator_, nullptr);
    return {};
  }
  CheckpointContent& content = writer_->staging();
  replica_.parameters(content.weights);
  replica_.optimizer_state(communicator_, &content.optimizer);
  const std::string weights = first_not_finite(content.weights);
  return weights.empty() ? first_not_finite(content.optimizer) : weights;
}

std::string Checkpointer::look_through() const {
  if (!writer_) return {};
  const std::string weights = first_not_finite(replica_.weights());
  return weights.empty() ? first_not_finite(replica_.optimizer_state()) : weights;
}

void Checkpointer::check() {
  if (writer_) writer_->check();
}

void Checkpointer::wait() {
  if (writer_) writer_->wait();
}

}  // namespace lockstep::runtime
