#include "tests/simgpu/engine/begun_copies.h"

#include <algorithm>

#include "tests/simgpu/engine/mistake.h"
#include "tests/simgpu/engine/names.h"
#include "tests/simgpu/engine/thread_scheduler.h"

namespace simgpu {

void BegunCopies::begin_block() {
  if (count_ == 0) return;
  for (Queue& queue : queues_) queue = {};
  count_ = 0;
}

void BegunCopies::end_block(const ThreadScheduler& scheduler) const {
  if (count_ == 0) return;
  const auto left = std::find_if(queues_.begin(), queues_.end(),
                                 [](const Queue& queue) { return queue.taken < queue.copies.size(); });
  const auto thread = static_cast<std::uint32_t>(left - queues_.begin());
  throw KernelMistake{
      "copy not waited for",
      running_block_text() + ", thread " + index_text(scheduler.index(thread)) + " begins a copy at " +
          left->copies[left->taken].site.text() +
          " and returns without a wait for it: wait for all copies, also for those that nobody reads"};
}

void BegunCopies::add(std::uint32_t thread, const BegunCopy& copy) {
  queues_[thread].copies.push_back(copy);
  ++count_;
}

bool BegunCopies::take(std::uint32_t thread, BegunCopy& copy) {
  Queue& queue = queues_[thread];
  if (queue.taken == queue.copies.size()) {
    queue.copies.clear();
    queue.taken = 0;
    return false;
  }
  copy = queue.copies[queue.taken++];
  --count_;
  return true;
}

}  // namespace simgpu
