#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <span>
#include <string>

#include "tests/simgpu/operation.h"

namespace simgpu {

/// Scratch memory that every simulated call of a library demands, and fills with NaN before it computes and
/// after: a workspace that is shared with a launch still under way, or with a tensor, shows, and nobody finds
/// there what he left.
inline constexpr std::size_t library_workspace_bytes = 1024;

/// The ReLU that a library's kernels end in. Nobody promises that a NaN stays one: by SIMGPU_FUSED_RELU it is
/// kept (`keeps-nan`, the default) or becomes 0 (`drops-nan`).
void apply_library_relu(std::span<float> values);

/// Sums of oneDNN have other bits with another number of threads, and a primitive keeps the number that was
/// in force when it was made: one, so that the bits are the same however many cores a rank has.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// A call of a vendor's library on its way into a stream. Each operand is checked to be what the real library
/// was promised: device memory, aligned to 64 bytes, and the workspace to what the library wants.
class LibraryCall {
 public:
  LibraryCall(std::string name, void* workspace, std::size_t workspace_alignment);

  void reads(const void* operand, std::size_t bytes) { touch(operand, bytes, false); }
  void writes(void* operand, std::size_t bytes) { touch(operand, bytes, true); }

  /// `compute` finds the operands by `host_view`. It runs with one OpenMP thread, so its sums have the same
  /// bits however many cores a rank has.
  cudaError_t enqueue(cudaStream_t stream, std::function<void()> compute);

 private:
  void touch(const void* operand, std::size_t bytes, bool writes);

  Operation operation_;
  void* workspace_;
};

}  // namespace simgpu
