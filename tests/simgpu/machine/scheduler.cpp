#include "tests/simgpu/machine/scheduler.h"

#include <utility>

namespace simgpu {
namespace {

/// The fake clock: a launch, and a memory of 1 TB/s.
constexpr double microseconds_per_operation = 2;
constexpr double bytes_per_microsecond = 1e6;

}  // namespace

Scheduler::Scheduler(const Settings& settings, std::mutex& mutex, Memory& memory)
    : mutex_(mutex),
      memory_(memory),
      guards_(memory.pinned()),
      of_device_(static_cast<std::size_t>(settings.devices)),
      trace_(settings.trace),
      executor_(settings, memory, trace_) {}

NodePtr Scheduler::schedule(Lock& lock, Request request) {
  const auto node = std::make_shared<Node>();
  node->operation = std::move(request.operation);
  node->info = std::move(request.info);
  node->device = request.device;
  node->priority = request.priority;
  node->sequence = next_sequence_++;
  node->waits_for = std::move(request.waits_for);
  node->clock = host_;
  for (const NodePtr& before : node->waits_for) node->clock.join(before->clock);
  if (ticks_.size() <= request.actor) ticks_.resize(request.actor + std::size_t{1});
  node->stamp = {request.actor, ++ticks_[request.actor]};
  node->clock.set(node->stamp);

  std::vector<Use> uses;
  for (const Access& access : node->operation.accesses) uses.push_back(resolve(access, *node));
  for (const Use& use : uses) order_.check(*node, use);
  for (const Use& use : uses) {
    order_.note(*node, use);
    node->microseconds += static_cast<double>(use.end - use.begin) / bytes_per_microsecond;
  }
  if (node->operation.run) node->microseconds += microseconds_per_operation;
  check_pads_after(*node, uses);
  guard_pinned(*node, uses);
  of_device_[static_cast<std::size_t>(node->device)].join(node->clock);
  trace_.enqueued(*node);
  executor_.add(lock, node);
  return node;
}

/// A kernel that writes beside its buffer is reported when it ends, not when the buffer is freed.
void Scheduler::check_pads_after(Node& node, const std::vector<Use>& uses) {
  const auto kind = node.operation.kind;
  if (kind != Operation::Kind::kernel && kind != Operation::Kind::library) return;
  std::vector<std::uintptr_t> written;
  for (const Use& use : uses) {
    if (use.writes) written.push_back(use.begin);
  }
  if (written.empty()) return;
  node.operation.run = [this, run = std::move(node.operation.run), written = std::move(written)] {
    if (!run()) return false;
    const std::lock_guard lock(mutex_);
    for (const auto address : written) {
      if (const Block* block = memory_.find(address)) memory_.check_pads(*block);
    }
    return true;
  };
}

void Scheduler::guard_pinned(Node& node, const std::vector<Use>& uses) {
  const bool is_kernel = node.operation.kind == Operation::Kind::kernel;
  if (!is_kernel && node.operation.kind != Operation::Kind::copy) return;
  bool is_guarded = false;
  for (const Use& use : uses) {
    const Block* block = memory_.find(use.begin);
    // Mapped memory is there to be watched by the host while the device writes it.
    if (!block || block->kind != Block::Kind::pinned || (block->flags & cudaHostAllocMapped) != 0) continue;
    guards_.guard(node, use, *block);
    is_guarded = true;
  }
  if (!is_kernel || !is_guarded) return;
  node.operation.run = [this, run = std::move(node.operation.run), stamp = node.stamp] {
    const bool done = run();
    const std::lock_guard lock(mutex_);
    guards_.close_again(stamp);
    return done;
  };
}

void Scheduler::wait_for(Lock& lock, const NodePtr& node) {
  if (!node) return;
  executor_.run_until_done(lock, {node});
  host_learns(node->clock);
}

void Scheduler::wait_for_device(Lock& lock, int device) {
  const VectorClock all = of_device_[static_cast<std::size_t>(device)];
  run_device(lock, device);
  host_learns(all);
}

bool Scheduler::poll(Lock& lock, const NodePtr& node) {
  if (!node) return true;
  const bool done = node->done;
  if (done) {
    host_learns(node->clock);
  } else {
    executor_.run_a_step_towards(lock, node);
  }
  return done;
}

void Scheduler::host_learns(const VectorClock& clock) {
  host_.join(clock);
  guards_.release(host_);
}

void Scheduler::finish_uses(Lock& lock, const Block& block, const Origin& origin, bool unwinding) {
  const auto use = order_.unfinished(block.begin, block.end(), host_);
  if (!use) return;
  if (unwinding) {
    wait_for_device(lock, block.device);
    return;
  }
  report_mistake("use after free in flight", "the host frees " + block.describe() + " at " + origin.text() +
                                                 " while " + use->describe() +
                                                 " may still use it; synchronise with that stream first");
}

void Scheduler::forget(const Block& block) {
  order_.forget(block.begin, block.end());
  guards_.forget(block.begin, block.end());
}

}  // namespace simgpu
