#include "tests/simgpu/engine/barrier.h"

#include "tests/simgpu/engine/exited_threads.h"
#include "tests/simgpu/engine/mistake.h"
#include "tests/simgpu/engine/names.h"

namespace simgpu {

int Barrier::arrive(const Call& call, int value) {
  if (arrived_ == 0) {
    call_ = &call;
    first_ = scheduler_.current();
    sum_ = 0;
  } else if (!(call.site == call_->site) || call.name != call_->name) {
    diverged(call);
  }
  if (scheduler_.live() != scheduler_.size() && !exited_threads_allowed()) misses_thread(call);
  sum_ += value;
  const unsigned turn = turn_;
  sanitizer::release(&tokens_[turn]);
  if (++arrived_ == scheduler_.live()) {
    open();
  } else {
    scheduler_.park(call, 0);
  }
  sanitizer::acquire(&tokens_[turn]);
  return result_[turn];
}

void Barrier::thread_exited() {
  if (arrived_ == 0) return;
  if (!exited_threads_allowed()) {
    kernel_mistake("exited thread", "returns, while thread " + index_text(scheduler_.index(first_)) +
                                        " waits in " + call_text(*call_, 0) +
                                        " for all: let all threads reach the barrier");
  }
  if (arrived_ == scheduler_.live()) open();
}

void Barrier::diverged(const Call& call) const {
  kernel_mistake("divergent barrier", "comes to " + call_text(call, 0) + ", while thread " +
                                          index_text(scheduler_.index(first_)) + " waits in " +
                                          call_text(*call_, 0) +
                                          ": a barrier's condition must be the same in the whole block");
}

void Barrier::misses_thread(const Call& call) const {
  std::uint32_t exited = 0;
  while (!scheduler_.has_exited(exited)) ++exited;
  kernel_mistake("exited thread", "waits in " + call_text(call, 0) + ", but thread " +
                                      index_text(scheduler_.index(exited)) +
                                      " of the block has returned: let all threads reach the barrier");
}

void Barrier::open() {
  result_[turn_] = sum_;
  turn_ = 1 - turn_;
  arrived_ = 0;
  Walk walk = scheduler_.order().walk(scheduler_.size());
  while (!walk.done()) {
    const auto thread = static_cast<std::uint32_t>(walk.next());
    if (scheduler_.thread(thread).call) scheduler_.wake(thread);
  }
}

}  // namespace simgpu
