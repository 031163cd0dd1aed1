#include "tests/simgpu/engine/launch_checks.h"

#include <cuda_runtime_api.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "tests/simgpu/machine/call.h"

namespace simgpu {
namespace {

bool within(const dim3& extent, unsigned x, unsigned y, unsigned z) {
  return extent.x >= 1 && extent.x <= x && extent.y >= 1 && extent.y <= y && extent.z >= 1 && extent.z <= z;
}

/// Dynamic shared memory that cudaFuncSetAttribute granted the kernel; 0: it was not asked.
std::size_t granted_bytes(const void* kernel) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  const auto granted = m.dynamic_shared_bytes.find(kernel);
  return granted == m.dynamic_shared_bytes.end() ? 0 : static_cast<std::size_t>(granted->second);
}

/// More than 48 KiB only for kernels that were granted it. A grant and the static arrays lie side by side,
/// whatever the launch uses of the grant; here these are known when the kernel runs.
cudaError_t divide_shared_memory(const void* kernel, Grid& grid) {
  const std::size_t granted = granted_bytes(kernel);
  if (grid.shared_bytes > std::max(limits::shared_bytes, granted)) return cudaErrorInvalidValue;
  const std::size_t dynamic = std::max(grid.shared_bytes, granted);
  const std::size_t all = granted > 0
                              ? limits::of_multiprocessor(machine().settings.capability).most_shared_bytes()
                              : limits::shared_bytes;
  grid.static_bytes = std::min(all - dynamic, limits::shared_bytes);
  return cudaSuccess;
}

cudaError_t error_of(const void* kernel, Grid& grid) {
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  const bool fits = within(grid.blocks, limits::grid_x, limits::grid_y, limits::grid_z) &&
                    within(grid.threads, limits::block_x, limits::block_y, limits::block_z) &&
                    count(grid.threads) <= limits::block_threads;
  return fits ? divide_shared_memory(kernel, grid) : cudaErrorInvalidConfiguration;
}

/// "add" of "void (anonymous namespace)::add<float>(float*)": up to the parameters' parenthesis.
std::string without_parameters(std::string name) {
  if (!name.empty() && name.back() == ')') {
    std::size_t depth = 0;
    for (std::size_t at = name.size(); at-- > 0;) {
      if (name[at] == ')') ++depth;
      if (name[at] == '(' && --depth == 0) {
        name.resize(at);
        break;
      }
    }
  }
  return name.substr(0, 5) == "void " ? name.substr(5) : name;
}

/// Of a kernel without an exported name, "libx.so+0x12ab", as addr2line and nm take it.
std::string place_in_file(const Dl_info& info, const void* kernel) {
  const std::string_view path = info.dli_fname;
  char digits[24];
  std::snprintf(
      digits, sizeof(digits), "+0x%zx",
      static_cast<std::size_t>(static_cast<const char*>(kernel) - static_cast<const char*>(info.dli_fbase)));
  return std::string(path.substr(path.rfind('/') + 1)) + digits;
}

}  // namespace

cudaError_t check_launch(const void* kernel, Grid& grid) {
  const cudaError_t error = error_of(kernel, grid);
  if (error != cudaSuccess) last_error() = error;
  return error;
}

void check_alignment(const void* pointer, std::size_t alignment, const Grid& grid) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address % alignment == 0) return;
  report_mistake("misaligned pointer", "kernel " + grid.name + ", launched at " + grid.site + ", is given " +
                                           hex(address) + " for a type whose addresses are multiples of " +
                                           std::to_string(alignment) +
                                           ": a GPU faults when it loads from there");
}

std::string kernel_name(const void* kernel) {
  Dl_info info{};
  if (!dladdr(kernel, &info)) return "kernel";
  if (!info.dli_sname || info.dli_saddr != kernel) return place_in_file(info, kernel);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
  return readable ? without_parameters(readable.get()) : info.dli_sname;
}

void add_pointer(const void* pointer, bool writes, std::vector<Access>& accesses) {
  if (pointer) accesses.push_back({pointer, nullptr, writes});
}

void add_word(std::uintptr_t word, std::vector<Access>& accesses) {
  const auto* pointer = reinterpret_cast<const void*>(word);
  if (pointer && is_device_address(pointer)) accesses.push_back({pointer, nullptr, true, true});
}

}  // namespace simgpu
