#include "tests/simgpu/engine/thread_scheduler.h"

#include <utility>

#include "tests/simgpu/engine/mistake.h"
#include "tests/simgpu/engine/waiting.h"

namespace simgpu {

void ThreadScheduler::begin_grid(const dim3& extent, const ThreadOrder& order) {
  order_ = order;
  count_ = extent.x * extent.y * extent.z;
  std::uint32_t number = 0;
  for (unsigned z = 0; z < extent.z; ++z) {
    for (unsigned y = 0; y < extent.y; ++y) {
      for (unsigned x = 0; x < extent.x; ++x) indices_[number++] = {x, y, z};
    }
  }
  free_.reserve(limits::block_threads);
  if (own_fibers_) {
    while (fibers_.size() < count_)
      fibers_.push_back(std::make_unique<Fiber>(static_cast<unsigned>(fibers_.size())));
  }
}

void ThreadScheduler::run(const std::function<void()>& body, const ExitHook& exit_hook) {
  body_ = &body;
  exit_hook_ = &exit_hook;
  live_ = count_;
  waiting_ = 0;
  ready_.clear();
  for (std::uint32_t warp = 0; warp < exited_.size(); ++warp) {
    const std::uint32_t first = 32 * warp;
    exited_[warp] = first >= count_ ? ~0u : count_ - first >= 32 ? 0u : ~0u << (count_ - first);
  }
  unbegun_ = order_.walk(count_);
  host_.sanitized = sanitizer::current_fiber();
  sanitizer::release(&begun_);
  go_on(Next::begin, host_, false);
  sanitizer::acquire(&ended_);
  if (!error_) return;
  give_up();
  std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadScheduler::yield() {
  if (ready_.empty() && unbegun_.done()) return;
  Thread& self = threads_[current_];
  const Next next = choose();
  self.fiber = running_;
  Fiber& here = *running_;
  if (next == Next::resume) {
    const std::uint32_t other = ready_.take(0);
    ready_.push(current_);
    make_current(other);
    switch_places(here, *threads_[other].fiber, false);
  } else {
    ready_.push(current_);
    go_on(next, here, false);
  }
  running_ = &here;
}

void ThreadScheduler::go_on(Next next, Place& from, bool for_ever) {
  if (next == Next::begin) {
    starting_ = static_cast<std::uint32_t>(unbegun_.next());
    Fiber& fiber = fiber_for(starting_);
    fiber.restart(&ThreadScheduler::enter, this);
    running_ = &fiber;
    switch_places(from, fiber, for_ever);
  } else if (next == Next::resume) {
    resume(from, for_ever);
  } else {
    switch_places(from, host_, for_ever);
  }
}

void ThreadScheduler::go_on_or_throw(Next next, Place& from) {
  if (next == Next::stuck) throw_deadlock(*this);
  go_on(next, from, false);
}

void ThreadScheduler::enter(void* self) {
  auto& scheduler = *static_cast<ThreadScheduler*>(self);
  const std::byte* bottom = nullptr;
  std::size_t bytes = 0;
  sanitizer::enter_stack(nullptr, &bottom, &bytes);
  // The first fiber of a block comes from the host's stack and so learns its bounds.
  if (scheduler.live_ == scheduler.count_ && scheduler.waiting_ == 0 && scheduler.ready_.empty()) {
    scheduler.host_.bottom = bottom;
    scheduler.host_.bytes = bytes;
  }
  scheduler.loop(*scheduler.running_);
}

void ThreadScheduler::loop(Fiber& self) {
  for (;;) {
    run_thread(starting_);
    running_ = &self;
    if (error_) go_on(Next::finish, self, true);
    const Next next = choose();
    if (next == Next::begin && !own_fibers_) {
      starting_ = static_cast<std::uint32_t>(unbegun_.next());
      continue;
    }
    if (next == Next::stuck) {
      error_ = std::make_exception_ptr(deadlock(*this));
      go_on(Next::finish, self, true);
    }
    if (!own_fibers_) free_.push_back(&self);
    go_on(next, self, true);
  }
}

void ThreadScheduler::run_thread(std::uint32_t thread) {
  make_current(thread);
  sanitizer::acquire(&begun_);
  try {
    (*body_)();
    exited_[thread / 32] |= 1u << (thread % 32);
    --live_;
    if (waiting_ > 0) (*exit_hook_)(thread);
  } catch (...) {
    error_ = std::current_exception();
  }
  sanitizer::release(&ended_);
}

Fiber& ThreadScheduler::fiber_for(std::uint32_t thread) {
  if (own_fibers_) return *fibers_[thread];
  if (free_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(static_cast<unsigned>(fibers_.size())));
    return *fibers_.back();
  }
  Fiber& fiber = *free_.back();
  free_.pop_back();
  return fiber;
}

void ThreadScheduler::give_up() {
  for (auto& thread : threads_) thread.call = nullptr;
  free_.clear();
  for (auto& fiber : fibers_) {
    fiber->forget_frames();
    if (!own_fibers_) free_.push_back(fiber.get());
  }
}

}  // namespace simgpu
