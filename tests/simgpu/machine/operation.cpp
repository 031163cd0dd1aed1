#include "tests/simgpu/operation.h"

#include <utility>

#include "tests/simgpu/machine/call.h"

namespace simgpu {
namespace {

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

cudaError_t enqueue(cudaStream_t stream, Operation operation) {
  const bool kernel = operation.kind == Operation::Kind::kernel;
  const std::string function = kernel ? "cudaLaunchKernel" : operation.name;
  return call({function, cudaErrorLaunchOutOfResources, caller()},
              [&](Machine& m, Lock& lock, const Origin& origin) {
                m.enqueue(lock, m.streams.get(stream), std::move(operation), origin);
              });
}

std::byte* host_view(const void* device) {
  return machine().memory.view(device);
}

bool is_device_address(const void* address) {
  return machine().memory.is_device(address_of(address));
}

std::size_t bytes_to_end(const void* address) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  const Block* const block = m.memory.find(address_of(address));
  return block ? block->end() - address_of(address) : 0;
}

int current_device() {
  return running().device;
}

int physical_device(int device) {
  return machine().settings.physical_number(device);
}

void register_range(const void* address, std::size_t bytes) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  const auto begin = address_of(address);
  Block* block = m.memory.find(begin);
  if (!block || begin + bytes > block->end()) {
    report_mistake("foreign pointer", "register_range: " + hex(begin) + " and the " + std::to_string(bytes) +
                                          " bytes after it do not lie in one allocation");
  }
  block->ranges[begin] = begin + bytes;
}

void set_sticky_error(cudaError_t error) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  m.sticky_error = error;
}

void refuse_error_left_behind(std::string_view function) {
  const cudaError_t left = last_error();
  if (left == cudaSuccess || is_sticky(left)) return;
  report_mistake("error left behind",
                 std::string(function) + " would take " + cudaGetErrorName(left) +
                     " of an earlier call for its own error; ask cudaGetLastError where that was expected");
}

void count_call(std::string_view function) {
  machine().faults.note(function);
}

std::uint64_t call_count(std::string_view function) {
  return machine().faults.calls(function);
}

}  // namespace simgpu
