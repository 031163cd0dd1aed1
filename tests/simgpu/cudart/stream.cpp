// Streams, callbacks, and waiting for them.

#include "tests/simgpu/machine/call.h"

using namespace simgpu;

namespace {

constexpr int least_priority = 0;
constexpr int greatest_priority = -5;

void create(Machine& m, cudaStream_t* stream, unsigned flags, int priority, const Origin& origin) {
  require(stream != nullptr, cudaErrorInvalidValue);
  require(flags == cudaStreamDefault || flags == cudaStreamNonBlocking, cudaErrorInvalidValue);
  if (priority > least_priority) priority = least_priority;
  if (priority < greatest_priority) priority = greatest_priority;
  *stream = m.streams.create(flags, priority, running().device, origin);
}

}  // namespace

cudaError_t cudaStreamCreate(cudaStream_t* pStream) {
  return call({__func__, cudaErrorMemoryAllocation, caller()}, [&](Machine& m, Lock&, const Origin& origin) {
    create(m, pStream, cudaStreamDefault, 0, origin);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  return call({__func__, cudaErrorMemoryAllocation, caller()},
              [&](Machine& m, Lock&, const Origin& origin) { create(m, pStream, flags, 0, origin); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int priority) {
  return call({__func__, cudaErrorMemoryAllocation, caller()},
              [&](Machine& m, Lock&, const Origin& origin) { create(m, pStream, flags, priority, origin); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call({__func__, cudaErrorInvalidResourceHandle, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(stream != nullptr, cudaErrorInvalidResourceHandle);
    require(!m.streams.get(stream)->capture, cudaErrorStreamCaptureUnsupported);
    m.streams.destroy(stream);  // its work goes on
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int* flags) {
  return call({__func__, cudaErrorInvalidResourceHandle, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(flags != nullptr, cudaErrorInvalidValue);
    *flags = m.streams.get(hStream)->flags;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int* priority) {
  return call({__func__, cudaErrorInvalidResourceHandle, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(priority != nullptr, cudaErrorInvalidValue);
    *priority = m.streams.get(hStream)->priority;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int* device) {
  return call({__func__, cudaErrorInvalidResourceHandle, caller()}, [&](Machine& m, Lock&, const Origin&) {
    require(device != nullptr, cudaErrorInvalidValue);
    *device = m.streams.get(hStream)->device;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine&, Lock&, const Origin&) {
    if (leastPriority) *leastPriority = least_priority;
    if (greatestPriority) *greatestPriority = greatest_priority;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call({__func__, cudaErrorLaunchFailure, caller()}, [&](Machine& m, Lock& lock, const Origin&) {
    const StreamPtr waited = m.streams.get(stream);
    m.captures.refuse_wait(*waited);
    for (const NodePtr& node : m.streams.work_of(*waited)) m.scheduler.wait_for(lock, node);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call({__func__, cudaErrorLaunchFailure, caller()}, [&](Machine& m, Lock& lock, const Origin&) {
    const StreamPtr asked = m.streams.get(stream);
    m.captures.refuse_wait(*asked);
    for (const NodePtr& node : m.streams.work_of(*asked)) {
      require(m.scheduler.poll(lock, node), cudaErrorNotReady);
    }
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call({__func__, cudaErrorLaunchFailure, caller()}, [&](Machine& m, Lock& lock, const Origin&) {
    m.captures.refuse_wait_for_device(running().device);
    m.scheduler.wait_for_device(lock, running().device);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  return call({__func__, cudaErrorInvalidValue, caller()}, [&](Machine& m, Lock& lock, const Origin& origin) {
    require(fn != nullptr, cudaErrorInvalidValue);
    const auto run = [fn, userData] {
      fn(userData);
      return true;
    };
    m.enqueue(lock, m.streams.get(stream), {Operation::Kind::host_call, "cudaLaunchHostFunc", {}, run},
              origin);
  });
}
