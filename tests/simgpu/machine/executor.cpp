#include "tests/simgpu/machine/executor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tests/simgpu/machine/running.h"

namespace simgpu {
namespace {

constexpr auto pause_for_peers = std::chrono::microseconds(100);

using Kind = Operation::Kind;

bool all_done(const std::vector<NodePtr>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](const NodePtr& node) { return node->done; });
}

/// The thread runs `node` from here to the end of the scope.
class RunningScope {
 public:
  explicit RunningScope(const Node& node) : before_(std::exchange(running(), {&node, node.device})) {}
  ~RunningScope() { running() = before_; }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

 private:
  Running before_;
};

}  // namespace

Executor::Executor(const Settings& settings, const Memory& memory, Trace& trace)
    : policy_(settings.policy), random_(settings.seed), memory_(memory), trace_(trace) {}

void Executor::add(Lock& lock, NodePtr node) {
  const bool needs_progress =
      node->operation.kind == Kind::collective || node->operation.kind == Kind::host_call;
  pending_.emplace(node->sequence, std::move(node));
  if (needs_progress) ensure_progress(lock);
  if (policy_ == Policy::eager) run_ready(lock);
  if (policy_ == Policy::random) {
    while (random_() % 2 == 0 && run_any(lock)) continue;
    if (!busy_) close_memory();
  }
}

void Executor::run_until_done(Lock& lock, const Nodes& targets) {
  const bool in_order = policy_ != Policy::random;
  Candidates needed = in_order ? not_done_before(targets) : Candidates{};
  while (!all_done(targets)) {
    rethrow_failure();
    if (in_order && run_one(lock, needed)) continue;
    // All that is needed waits for a peer, whose turn may come only after other work of this process.
    if (run_any(lock)) continue;
    if (!busy_) close_memory();
    asked_.clear();
    changed_.wait_for(lock, pause_for_peers);
  }
  if (!busy_) close_memory();
  rethrow_failure();
}

void Executor::run_a_step_towards(Lock& lock, const NodePtr& target) {
  rethrow_failure();
  asked_.clear();
  Candidates needed = not_done_before({target});
  run_one(lock, needed);
  if (!busy_) close_memory();
}

std::vector<NodePtr> Executor::pending(int device) const {
  Nodes found;
  for (const auto& [sequence, node] : pending_) {
    if (node->device == device) found.push_back(node);
  }
  return found;
}

Executor::Candidates Executor::by_priority(const std::map<std::uint64_t, NodePtr>& nodes) {
  Candidates found;
  found.nodes.reserve(nodes.size());
  for (const auto& [sequence, node] : nodes) found.nodes.push_back(node);
  std::ranges::stable_sort(found.nodes, {}, [](const NodePtr& node) { return node->priority; });
  return found;
}

Executor::Candidates Executor::not_done_before(const Nodes& targets) const {
  std::map<std::uint64_t, NodePtr> found;
  Nodes open = targets;
  while (!open.empty()) {
    const NodePtr node = open.back();
    open.pop_back();
    if (node->done || !found.emplace(node->sequence, node).second) continue;
    open.insert(open.end(), node->waits_for.begin(), node->waits_for.end());
  }
  return by_priority(found);
}

NodePtr Executor::choose(Candidates& candidates) {
  auto& [nodes, first] = candidates;
  while (first < nodes.size() && nodes[first]->done) ++first;
  Nodes ready;
  for (std::size_t i = first; i < nodes.size(); ++i) {
    const NodePtr& node = nodes[i];
    if (node->done || asked_.count(node.get()) > 0 || !node->ready()) continue;
    if (policy_ != Policy::random) return node;
    ready.push_back(node);
  }
  return ready.empty() ? nullptr : ready[random_() % ready.size()];
}

bool Executor::run_one(Lock& lock, Candidates& candidates) {
  while (busy_) changed_.wait(lock);
  const NodePtr node = choose(candidates);
  if (!node) return false;
  run(lock, node);
  return true;
}

bool Executor::run_any(Lock& lock) {
  Candidates candidates = by_priority(pending_);
  return run_one(lock, candidates);
}

void Executor::run(Lock& lock, const NodePtr& node) {
  const Kind kind = node->operation.kind;
  if (!std::exchange(node->started, true)) trace_.started(*node);
  if (!node->operation.run) return finish(*node);
  if (kind == Kind::kernel) open_memory(node->device);
  if (kind == Kind::host_call) close_memory();
  busy_ = true;
  lock.unlock();
  bool done = true;
  std::exception_ptr thrown;
  try {
    const RunningScope scope(*node);
    done = node->operation.run();
  } catch (...) {
    thrown = std::current_exception();
  }
  lock.lock();
  busy_ = false;
  if (done) {
    finish(*node);
  } else {
    asked_.insert(node.get());
  }
  changed_.notify_all();
  if (!thrown) return;
  close_memory();
  std::rethrow_exception(thrown);
}

void Executor::finish(Node& node) {
  for (const NodePtr& before : node.waits_for)
    node.finished_at = std::max(node.finished_at, before->finished_at);
  node.finished_at += node.microseconds;
  node.waits_for.clear();
  node.operation.run = nullptr;  // what it holds may end now, though another thread still looks at the node
  node.done = true;
  trace_.ended(node);
  asked_.clear();  // whoever waited for a peer may have waited for this
  pending_.erase(node.sequence);
}

void Executor::run_ready(Lock& lock) {
  asked_.clear();
  Candidates candidates = by_priority(pending_);
  while (run_one(lock, candidates)) continue;
  if (!busy_) close_memory();
}

void Executor::open_memory(int device) {
  if (open_.insert(device).second) memory_.open(device);
}

void Executor::close_memory() {
  for (const int device : open_) memory_.close(device);
  open_.clear();
}

void Executor::rethrow_failure() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace simgpu
