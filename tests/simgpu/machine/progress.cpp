#include <chrono>
#include <utility>

#include "tests/simgpu/machine/executor.h"

namespace simgpu {
namespace {

/// Lazy work that nothing of this process waits for stays undone for so long, so that a forgotten
/// synchronisation shows as an old value.
constexpr auto pause_when_lazy = std::chrono::milliseconds(2);
constexpr auto pause_when_eager = std::chrono::microseconds(200);

}  // namespace

Executor::~Executor() {
  if (!progress_.joinable()) return;
  {
    const std::lock_guard lock(*mutex_);
    leaving_ = true;
    changed_.notify_all();
  }
  progress_.join();
}

void Executor::ensure_progress(Lock& lock) {
  changed_.notify_all();
  if (progress_.joinable()) return;
  mutex_ = lock.mutex();
  progress_ = std::thread([this] { make_progress(); });
}

/// A peer waits for our part of a collective, or the host for what a callback does, while nobody here is in a
/// CUDA call.
std::vector<NodePtr> Executor::awaited_elsewhere() const {
  Nodes found;
  for (const auto& [sequence, node] : pending_) {
    const auto kind = node->operation.kind;
    if (kind == Operation::Kind::collective || kind == Operation::Kind::host_call) found.push_back(node);
  }
  return found;
}

void Executor::make_progress() {
  Lock lock(*mutex_);
  const std::chrono::microseconds pause = policy_ == Policy::eager ? pause_when_eager : pause_when_lazy;
  while (!leaving_) {
    if (awaited_elsewhere().empty()) {
      changed_.wait(lock);
      continue;
    }
    changed_.wait_for(lock, pause);
    if (leaving_) break;
    try {
      asked_.clear();
      Candidates needed = not_done_before(awaited_elsewhere());
      while (!leaving_ && run_one(lock, needed)) continue;
      if (policy_ == Policy::eager) run_ready(lock);
      if (!busy_) close_memory();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
}

}  // namespace simgpu
