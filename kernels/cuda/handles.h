#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

namespace lockstep::kernels {

/// DeviceError "cuda: <what>: <CUDA's words>; <the hint>".
[[noreturn]] void throw_cuda_error(cudaError_t result, std::string_view what);

inline void check(cudaError_t result, std::string_view what) {
  if (result != cudaSuccess) throw_cuda_error(result, what);
}

/// Of a library's call that was refused: throw_cuda_error if the GPU has failed, in this call or a kernel
/// before it, which libraries tell in words that lead elsewhere. Also while `stream` is captured.
void check_gpu(std::string_view what, cudaStream_t stream = nullptr);

/// As `check`, of a kernel that is launched in line `line` of `file`.
void check_launch(cudaError_t result, std::string_view file, int line);

/// Owners of what CUDA hands out, all on the device that was current when they were made.
struct CudaDeleter {
  void operator()(CUstream_st* stream) const noexcept { cudaStreamDestroy(stream); }
  void operator()(CUevent_st* event) const noexcept { cudaEventDestroy(event); }
};
using StreamHandle = std::unique_ptr<CUstream_st, CudaDeleter>;
using EventHandle = std::unique_ptr<CUevent_st, CudaDeleter>;

/// A stream that does not wait for the default stream. Lower numbers go first;
/// cudaDeviceGetStreamPriorityRange.
StreamHandle make_stream_handle(int priority = 0);

/// For order alone: it takes no time stamps, which would slow the stream.
EventHandle make_event_handle();

struct DeviceDeleter {
  void operator()(void* memory) const noexcept { cudaFree(memory); }
};
struct PinnedDeleter {
  void operator()(void* memory) const noexcept { cudaFreeHost(memory); }
};

/// Memory with its size; `data()` is null when it has none.
template <class Deleter>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes);

  void* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, Deleter> memory_;
  std::size_t bytes_ = 0;
};

/// Device memory, not cleared. DeviceError tells how much was wanted and how much is free.
using DeviceBuffer = Buffer<DeviceDeleter>;
/// Page-locked memory of the host, which the GPU's copy engines read and write by themselves. Not cleared.
using PinnedBuffer = Buffer<PinnedDeleter>;

template <>
Buffer<DeviceDeleter>::Buffer(std::size_t bytes);
template <>
Buffer<PinnedDeleter>::Buffer(std::size_t bytes);

/// 1 where there is no driver, and so no GPU but described ones, on which nothing is launched.
int multiprocessors_of_current_device();

/// A library's handle for the current device: made at first, shared by those who hold it, freed with the last
/// of them. (A handle that outlived them would be freed after main, when the driver may be gone.)
template <class Handle>
std::shared_ptr<Handle> shared_by_device() {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Handle>> handles;
  int device = 0;
  check(cudaGetDevice(&device), "cannot tell the current device");
  const std::lock_guard lock(mutex);
  std::shared_ptr<Handle> handle = handles[device].lock();
  if (!handle) handles[device] = handle = std::make_shared<Handle>();
  return handle;
}

}  // namespace lockstep::kernels
