#include "tests/simgpu/engine/warp.h"

#include <bit>

#include "tests/simgpu/engine/exited_threads.h"
#include "tests/simgpu/engine/mistake.h"
#include "tests/simgpu/engine/names.h"

namespace simgpu {
namespace {

std::uint32_t bit_of(std::uint32_t lane) {
  return 1u << lane;
}
std::uint32_t lowest(std::uint32_t mask) {
  return static_cast<std::uint32_t>(std::countr_zero(mask));
}
std::uint32_t highest(std::uint32_t mask) {
  return 31 - static_cast<std::uint32_t>(std::countl_zero(mask));
}

bool same_call(const Warp::Lane& one, const Warp::Lane& other) {
  return one.mask == other.mask && (one.call == other.call || (one.call->site == other.call->site &&
                                                               one.call->name == other.call->name));
}

}  // namespace

void Warp::begin_block(ThreadScheduler& scheduler, std::uint32_t number) {
  scheduler_ = &scheduler;
  number_ = number;
  waiting_ = 0;
}

std::uint64_t Warp::meet() {
  const std::uint32_t self = scheduler_->current() % lanes;
  Lane& lane = lanes_[self];
  if (!(lane.mask & bit_of(self))) left_itself_out(lane, self);
  const std::uint32_t exited = lane.mask & scheduler_->exited_lanes(number_);
  if (exited && !exited_threads_allowed()) named_exited(lane, exited);
  if (const std::uint32_t others = waiting_ & lane.mask) {
    const std::uint32_t other = lowest(others);
    // One that does not wait for this lane is in an earlier call of a smaller mask, and may still come.
    if ((lanes_[other].mask & bit_of(self)) && !same_call(lane, lanes_[other])) diverged(lane, other);
  }
  waiting_ |= bit_of(self);
  if (complete(self)) {
    finish(self);
  } else {
    scheduler_->park(*lane.call, lane.mask);
  }
  if (!lane.deliver) sanitizer::acquire(token_of_lane_[self]);
  return lane.result;
}

void Warp::lane_exited(std::uint32_t exited) {
  for (std::uint32_t rest = waiting_; rest; rest &= rest - 1) {
    const std::uint32_t lane = lowest(rest);
    if (!(lanes_[lane].mask & bit_of(exited))) continue;
    if (!exited_threads_allowed()) {
      kernel_mistake("exited lane", "returns, while lane " + std::to_string(lane) + " of its warp waits in " +
                                        call_text(*lanes_[lane].call, lanes_[lane].mask) +
                                        " for it: take it out of the mask, or let it come");
    }
    if (complete(lane)) {
      rest &= ~lanes_[lane].mask | bit_of(lane);
      finish(lane);
    }
  }
}

void Warp::left_itself_out(const Lane& lane, std::uint32_t self) const {
  kernel_mistake("lane not in its mask", "calls " + call_text(*lane.call, lane.mask) +
                                             ", which leaves out its own lane " + std::to_string(self) +
                                             ": the mask must name every lane that calls");
}

void Warp::named_exited(const Lane& lane, std::uint32_t exited) const {
  kernel_mistake("exited lane", "calls " + call_text(*lane.call, lane.mask) + ", but lane " +
                                    std::to_string(lowest(exited)) +
                                    " has returned or is beyond the block: take it out of the mask");
}

void Warp::diverged(const Lane& lane, std::uint32_t other) const {
  kernel_mistake("divergent warp call",
                 "calls " + call_text(*lane.call, lane.mask) + ", while lane " + std::to_string(other) +
                     " of its warp waits for it in " + call_text(*lanes_[other].call, lanes_[other].mask) +
                     ": all lanes of a mask must come to the same call with the same mask");
}

bool Warp::complete(std::uint32_t self) const {
  const Lane& lane = lanes_[self];
  const std::uint32_t needed = lane.mask & ~scheduler_->exited_lanes(number_);
  if ((waiting_ & needed) != needed) return false;
  for (std::uint32_t rest = needed & ~bit_of(self); rest; rest &= rest - 1) {
    if (!same_call(lane, lanes_[lowest(rest)])) return false;
  }
  return true;
}

void Warp::finish(std::uint32_t self) {
  const std::uint32_t present = lanes_[self].mask & ~scheduler_->exited_lanes(number_);
  if (lanes_[self].deliver) {
    lanes_[self].deliver(lanes_, present);
  } else {
    order_memory(present);
  }
  waiting_ &= ~present;
  const bool reversed = scheduler_->order().reversed();
  for (std::uint32_t rest = present; rest;) {
    const std::uint32_t lane = reversed ? highest(rest) : lowest(rest);
    rest &= ~bit_of(lane);
    const std::uint32_t thread = number_ * lanes + lane;
    if (scheduler_->thread(thread).call) scheduler_->wake(thread);
  }
}

void Warp::order_memory(std::uint32_t present) {
  if (!sanitizer::present.thread) return;
  void* const running = sanitizer::current_fiber();
  // A token of its own for each round: a lane may be woken late, and must not see what others did since.
  void* const token = &tokens_[round_++ % tokens_.size()];
  for (std::uint32_t rest = present; rest; rest &= rest - 1) {
    const std::uint32_t lane = lowest(rest);
    sanitizer::become_fiber(scheduler_->sanitized_fiber(number_ * lanes + lane));
    sanitizer::release(token);
    token_of_lane_[lane] = token;
  }
  sanitizer::become_fiber(running);
}

}  // namespace simgpu
