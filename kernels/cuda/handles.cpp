#include "kernels/cuda/handles.h"

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::kernels {
namespace {

std::string_view hint_for(cudaError_t result) {
  switch (result) {
    case cudaErrorMemoryAllocation:
      return "use a smaller batch";
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return "look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu";
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
      return "the driver is older than this CUDA: install a newer driver, or build with an older toolkit";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return "this build has no code for this GPU: configure with -DCMAKE_CUDA_ARCHITECTURES=native";
    case cudaErrorDevicesUnavailable:
    case cudaErrorMpsConnectionFailed:
      return "another process holds the GPU alone: look at its compute mode in nvidia-smi";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return "this kernel or one before it failed: --sync-launch names it, and compute-sanitizer tells more";
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
      return "the GPU is damaged: look for its Xid in dmesg, take it out of service, and resume elsewhere";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread:
      return "a kernel or a library cannot be captured";
    case cudaErrorLaunchTimeout:
      return "a GPU that draws a screen ends what takes it seconds: take another one, or a smaller batch";
    // What a driver refuses before the hardware has seen it.
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorHostMemoryAlreadyRegistered:
    case cudaErrorHostMemoryNotRegistered:
      return "a fault of this program, or of its build for this GPU: report it with what `trainer devices` "
             "prints";
    default:
      return "look for the GPU's Xid in dmesg, and at nvidia-smi";
  }
}

std::string shown(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

void throw_cuda_error(cudaError_t result, std::string_view what) {
  cudaGetLastError();  // the next call is not to report this one's failure again
  throw DeviceError(fmt::format("cuda: {}: {} ({}); {}", what, cudaGetErrorString(result),
                                cudaGetErrorName(result), hint_for(result)));
}

void check_gpu(std::string_view what, cudaStream_t stream) {
  cudaGetLastError();  // of the library's own launch
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  // A capture allows this question, and it is answered with what has failed before.
  check(cudaStreamIsCapturing(stream, &status), what);
}

void check_launch(cudaError_t result, std::string_view file, int line) {
  if (result == cudaSuccess) return;
  throw_cuda_error(
      result, fmt::format("the kernel launched in {}:{}", file.substr(file.find_last_of('/') + 1), line));
}

int multiprocessors_of_current_device() {
  int device = 0;
  int multiprocessors = 0;
  const cudaError_t found = cudaGetDevice(&device);
  if (found == cudaErrorInsufficientDriver || found == cudaErrorStubLibrary || found == cudaErrorNoDevice) {
    cudaGetLastError();
    return 1;
  }
  check(found, "cannot tell the current device");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "cannot count the multiprocessors");
  return multiprocessors;
}

StreamHandle make_stream_handle(int priority) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority), "cannot make a stream");
  return StreamHandle(stream);
}

EventHandle make_event_handle() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cannot make an event");
  return EventHandle(event);
}

template <>
Buffer<DeviceDeleter>::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  const cudaError_t result = cudaMalloc(&memory, bytes);
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cannot read the free memory");
    throw DeviceError(fmt::format("cuda: cannot allocate {} ({} bytes): {} of the GPU's {} are free; {}",
                                  shown(bytes), bytes, shown(free), shown(total), hint_for(result)));
  }
  check(result, fmt::format("cannot allocate {}", shown(bytes)));
  memory_.reset(memory);
}

template <>
Buffer<PinnedDeleter>::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault),
        fmt::format("cannot allocate {} of pinned host memory", shown(bytes)));
  memory_.reset(memory);
}

}  // namespace lockstep::kernels
