#include "tests/simgpu/machine/scheduler.h"

namespace simgpu {
namespace {

using Kind = Operation::Kind;

[[noreturn]] void report_missing(const Memory& memory, std::uintptr_t address, const Node& node) {
  const std::string who = node.info->describe();
  if (memory.is_device(address) || memory.is_pinned_arena(address)) {
    report_mistake(memory.was_freed(address) ? "use after free" : "foreign pointer",
                   who + " is given a pointer to no allocation: " + memory.explain_missing(address));
  }
  const bool kernel = node.operation.kind == Kind::kernel;
  report_mistake(kernel ? "host pointer in a kernel" : "host pointer in a device operation",
                 who + " is given " + hex(address) +
                     ", which is neither device nor pinned memory; copy the data to the device, or allocate "
                     "it with cudaMallocHost");
}

}  // namespace

Use Scheduler::resolve(const Access& access, const Node& node) {
  const auto begin = reinterpret_cast<std::uintptr_t>(access.begin);
  if (begin == 0) return {0, 0, false};
  const Block* block = memory_.find(begin);
  if (!block && access.guessed && !memory_.was_freed(begin)) return {0, 0, false};
  if (!block) report_missing(memory_, begin, node);
  check_block(*block, node);
  const auto end = access.end ? reinterpret_cast<std::uintptr_t>(access.end) : block->end_of_buffer(begin);
  if (end > block->end()) {
    report_mistake("out of bounds", node.info->describe() + " reaches " + std::to_string(end - block->end()) +
                                        " bytes beyond the end of " + block->describe());
  }
  return {begin, end, access.writes};
}

void Scheduler::check_block(const Block& block, const Node& node) const {
  if (!block.freed_by.empty()) {
    report_mistake("use after free", node.info->describe() + " uses " + block.describe() +
                                         ", which was freed at " + block.freed_by);
  }
  const auto kind = node.operation.kind;
  const bool computes = kind == Kind::kernel || kind == Kind::library;
  if (computes && block.kind == Block::Kind::device && block.device != node.device) {
    report_mistake("memory of another device",
                   node.info->describe() + " runs on device " + std::to_string(node.device) + " and uses " +
                       block.describe() + "; copy the data, or launch on a stream of that device");
  }
}

}  // namespace simgpu
