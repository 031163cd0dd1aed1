#include "runtime/checkpoint/writer.h"

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/signals_blocked.h"

namespace lockstep::runtime {
namespace {

bool is_done(const std::future<void>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointDirectory directory, std::int64_t keep)
    : directory_(std::move(directory)), keep_(keep) {
  directory_.sweep();
}

CheckpointWriter::~CheckpointWriter() {
  if (writing_.valid()) writing_.wait();
}

CheckpointContent& CheckpointWriter::staging() {
  if (writing_.valid() && !is_done(writing_)) {
    spdlog::warn("the checkpoint of step {} is still being written: training waits for the disk",
                 content_.step);
  }
  wait();
  return content_;
}

void CheckpointWriter::start() {
  const SignalsBlocked on_the_new_thread;
  writing_ = std::async(std::launch::async, [this] { write(); });
}

void CheckpointWriter::wait() {
  if (writing_.valid()) writing_.get();
}

void CheckpointWriter::check() {
  if (writing_.valid() && is_done(writing_)) writing_.get();
}

void CheckpointWriter::write() const {
  directory_.add(content_.step, [this](const std::filesystem::path& folder) {
    save_tensors(folder / "model.safetensors", content_.weights);
    save_tensors(folder / "optimizer.safetensors", content_.optimizer);
    write_file_atomically(folder / "state.json", content_.state);
    write_manifest(folder);
  });
  directory_.prune(content_.step, keep_);
}

}  // namespace lockstep::runtime
