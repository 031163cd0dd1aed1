#include "tests/simgpu/machine/release.h"

#include <string>

namespace simgpu {
namespace {

const void* pointer_to(std::uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

Operation whole_block(const char* name, const Block& block) {
  return {Operation::Kind::fill, name, {{pointer_to(block.begin), pointer_to(block.end()), true}}, {}};
}

}  // namespace

Block& block_to_free(Machine& m, std::uintptr_t address, Block::Kind kind, const Origin& origin,
                     std::string_view function) {
  Block* block = m.memory.find(address);
  const std::string where = std::string(function) + " at " + origin.text();
  if (block && !block->freed_by.empty()) {
    report_mistake("double free",
                   where + ": " + block->describe() + " was freed already, at " + block->freed_by);
  }
  if (block && block->begin == address && block->kind == kind) return *block;
  if (block) {
    report_mistake("foreign pointer", where + ": " + hex(address) + " lies in " + block->describe() +
                                          ", which this function does not free, or not by this address");
  }
  report_mistake(m.memory.was_freed(address) ? "double free" : "foreign pointer",
                 where + ": " + m.memory.explain_missing(address));
}

void allocate_in_order(Machine& m, Lock& lock, void** pointer, std::size_t bytes, cudaStream_t handle,
                       const Origin& origin) {
  const StreamPtr stream = m.streams.get(handle);
  require(!stream->capture, cudaErrorStreamCaptureUnsupported);  // memory nodes are not simulated
  const auto allocate = [&] {
    return m.memory.allocate(Block::Kind::device, bytes, stream->device, 0, origin);
  };
  const Block* block = allocate();
  if (!block) {  // what waits to be freed may make room
    m.scheduler.run_device(lock, stream->device);
    block = allocate();
  }
  require(block != nullptr, cudaErrorMemoryAllocation);
  *pointer = const_cast<void*>(pointer_to(block->begin));
  m.enqueue(lock, stream, whole_block("cudaMallocAsync", *block), origin);
}

void free_in_order(Machine& m, Lock& lock, std::uintptr_t address, cudaStream_t handle,
                   const Origin& origin) {
  const StreamPtr stream = m.streams.get(handle);
  require(!stream->capture, cudaErrorStreamCaptureUnsupported);
  const Block& block = block_to_free(m, address, Block::Kind::device, origin, "cudaFreeAsync");
  Operation operation = whole_block("cudaFreeAsync", block);
  const std::string by = origin.text();
  operation.run = [&m, address, by] {
    const std::lock_guard inner(m.mutex);
    if (Block* freed = m.memory.find(address)) {
      freed->freed_by = by;
      m.scheduler.forget(*freed);
      m.memory.release(*freed);
    }
    return true;
  };
  m.enqueue(lock, stream, std::move(operation), origin);
  Block* still = m.memory.find(address);
  if (still && still->begin == address) still->freed_by = by;
}

}  // namespace simgpu
