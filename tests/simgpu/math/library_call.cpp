#include "tests/simgpu/math/library_call.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string_view>
#include <utility>

namespace simgpu {
namespace {

constexpr std::uintptr_t alignment = 64;

void fill_with_nan(void* workspace) {
  auto* const floats = reinterpret_cast<float*>(host_view(workspace));
  std::fill_n(floats, library_workspace_bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
}

bool relu_drops_nan() {
  const char* const asked = std::getenv("SIMGPU_FUSED_RELU");
  if (asked == nullptr || asked == std::string_view("keeps-nan")) return false;
  if (asked == std::string_view("drops-nan")) return true;
  report_mistake("wrong setting",
                 std::string("SIMGPU_FUSED_RELU=") + asked + ": expected keeps-nan or drops-nan");
}

}  // namespace

void apply_library_relu(std::span<float> values) {
  const bool drops_nan = relu_drops_nan();
  for (float& value : values) {
    if (value < 0 || (drops_nan && std::isnan(value))) value = 0;
  }
}

OneThread::OneThread() : before_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}
OneThread::~OneThread() {
  omp_set_num_threads(before_);
}

LibraryCall::LibraryCall(std::string name, void* workspace, std::size_t workspace_alignment)
    : operation_{.kind = Operation::Kind::library, .name = std::move(name), .accesses = {}, .run = {}},
      workspace_(workspace) {
  refuse_error_left_behind(operation_.name);
  writes(workspace, library_workspace_bytes);
  if (reinterpret_cast<std::uintptr_t>(workspace) % workspace_alignment != 0) {
    report_mistake("misaligned workspace", operation_.name + ": the workspace is not aligned to " +
                                               std::to_string(workspace_alignment) +
                                               " bytes, as the library wants it");
  }
}

void LibraryCall::touch(const void* operand, std::size_t bytes, bool writes) {
  if (!is_device_address(operand)) {
    report_mistake("host pointer", operation_.name + ": operand " +
                                       std::to_string(operation_.accesses.size()) +
                                       " is no device memory; hand it what a device buffer's data() gives");
  }
  if (reinterpret_cast<std::uintptr_t>(operand) % alignment != 0) {
    report_mistake("misaligned operand", operation_.name + ": operand " +
                                             std::to_string(operation_.accesses.size()) +
                                             " is not aligned to 64 bytes, as the library was promised");
  }
  operation_.accesses.push_back({operand, static_cast<const std::byte*>(operand) + bytes, writes});
}

cudaError_t LibraryCall::enqueue(cudaStream_t stream, std::function<void()> compute) {
  operation_.run = [compute = std::move(compute), workspace = workspace_, name = operation_.name] {
    const OneThread guard;
    try {
      fill_with_nan(workspace);
      compute();
      fill_with_nan(workspace);
    } catch (const std::exception& error) {
      report_mistake("library", name + ": " + error.what());
    }
    return true;
  };
  return simgpu::enqueue(stream, std::move(operation_));
}

}  // namespace simgpu
