// Events.

#include "tests/simgpu/machine/call.h"

using namespace simgpu;

namespace {

void create(Machine& m, cudaEvent_t* handle, unsigned flags, const Origin& origin) {
  constexpr unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  require(handle != nullptr && (flags & ~known) == 0, cudaErrorInvalidValue);
  const auto event = std::make_shared<Event>();
  event->flags = flags;
  event->device = running().device;
  event->created = origin;
  *handle = m.events.add(event);
}

/// A mark in the stream: nothing to run.
Operation mark(const char* name) {
  return {Operation::Kind::fill, name, {}, {}};
}

void record(Machine& m, Lock& lock, cudaEvent_t handle, cudaStream_t stream_handle, const Origin& origin) {
  const EventPtr event = m.events.get(handle);
  const StreamPtr stream = m.streams.get(stream_handle);
  require(event->device == stream->device, cudaErrorInvalidResourceHandle);
  if (stream->capture) return m.captures.record(*stream, *event);
  m.captures.refuse_implicit(*stream);
  event->capture = nullptr;
  event->record = m.streams.submit(lock, *stream, mark("cudaEventRecord"), origin);
}

void refuse_captured(Machine& m, const Event& event) {
  if (event.capture) event.capture->invalid = true;
  require(!event.capture, cudaErrorCapturedEvent);
  m.captures.refuse_unsafe_call();
}

}  // namespace

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return call({__func__, cudaErrorMemoryAllocation, caller()},
              [&](Machine& m, Lock&, const Origin& origin) { create(m, event, cudaEventDefault, origin); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return call({__func__, cudaErrorMemoryAllocation, caller()},
              [&](Machine& m, Lock&, const Origin& origin) { create(m, event, flags, origin); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call({__func__, cudaErrorInvalidResourceHandle, caller()}, [&](Machine& m, Lock&, const Origin&) {
    m.events.get(event);
    m.events.remove(event);
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call({__func__, cudaErrorLaunchFailure, caller()},
              [&](Machine& m, Lock& lock, const Origin& origin) { record(m, lock, event, stream, origin); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return call({__func__, cudaErrorLaunchFailure, caller()},
              [&](Machine& m, Lock& lock, const Origin& origin) {
                require(flags == cudaEventRecordDefault, cudaErrorInvalidValue);  // external: not simulated
                record(m, lock, event, stream, origin);
              });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return call({__func__, cudaErrorLaunchFailure, caller()},
              [&](Machine& m, Lock& lock, const Origin& origin) {
                require(flags == cudaEventWaitDefault, cudaErrorInvalidValue);
                const StreamPtr waiting = m.streams.get(stream);
                const EventPtr awaited = m.events.get(event);
                if (waiting->capture || awaited->capture) return m.captures.wait(waiting, *awaited);
                m.captures.refuse_implicit(*waiting);
                if (awaited->record)
                  m.streams.submit(lock, *waiting, mark("cudaStreamWaitEvent"), origin, {awaited->record});
              });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call({__func__, cudaErrorLaunchFailure, caller()}, [&](Machine& m, Lock& lock, const Origin&) {
    const EventPtr asked = m.events.get(event);
    refuse_captured(m, *asked);
    require(m.scheduler.poll(lock, asked->record), cudaErrorNotReady);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call({__func__, cudaErrorLaunchFailure, caller()}, [&](Machine& m, Lock& lock, const Origin&) {
    const EventPtr awaited = m.events.get(event);
    refuse_captured(m, *awaited);
    m.scheduler.wait_for(lock, awaited->record);
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return call({__func__, cudaErrorLaunchFailure, caller()}, [&](Machine& m, Lock&, const Origin&) {
    const EventPtr first = m.events.get(start);
    const EventPtr last = m.events.get(end);
    require(ms != nullptr, cudaErrorInvalidValue);
    for (const EventPtr& event : {first, last}) {
      require(event->timed() && event->record && !event->capture, cudaErrorInvalidResourceHandle);
    }
    require(first->record->done && last->record->done, cudaErrorNotReady);
    *ms = static_cast<float>((last->record->finished_at - first->record->finished_at) / 1000);
  });
}
