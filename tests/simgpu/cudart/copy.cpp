// cudaMemcpy, cudaMemset and their relatives.

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "tests/simgpu/machine/call.h"

using namespace simgpu;

namespace {

/// Rows of bytes that are copied or filled; one row for the plain functions.
struct Rows {
  std::size_t width;
  std::size_t count;

  std::size_t extent(std::size_t pitch) const { return count == 0 ? 0 : (count - 1) * pitch + width; }
};

struct Side {
  const void* pointer;
  std::size_t pitch;

  const std::byte* begin() const { return static_cast<const std::byte*>(pointer); }
};

/// Neither device nor pinned memory: the driver stages it before the call returns.
bool pageable(Machine& m, const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (m.memory.is_device(address) || m.memory.is_pinned_arena(address)) return false;
  const Block* block = m.memory.find(address);
  return !block || address == block->end();
}

bool on_device(const Machine& m, const void* pointer) {
  return m.memory.is_device(reinterpret_cast<std::uintptr_t>(pointer));
}

void check_direction(const Machine& m, const void* to, const void* from, cudaMemcpyKind kind) {
  const bool to_device = on_device(m, to);
  const bool from_device = on_device(m, from);
  switch (kind) {
    case cudaMemcpyDefault:
      return;
    case cudaMemcpyHostToHost:
      return require(!to_device && !from_device, cudaErrorInvalidValue);
    case cudaMemcpyHostToDevice:
      return require(to_device && !from_device, cudaErrorInvalidValue);
    case cudaMemcpyDeviceToHost:
      return require(!to_device && from_device, cudaErrorInvalidValue);
    case cudaMemcpyDeviceToDevice:
      return require(to_device && from_device, cudaErrorInvalidValue);
  }
  throw Failure{cudaErrorInvalidMemcpyDirection};
}

void copy_rows(std::byte* to, std::size_t to_pitch, const std::byte* from, std::size_t from_pitch,
               Rows rows) {
  for (std::size_t row = 0; row < rows.count; ++row) {
    std::memmove(to + row * to_pitch, from + row * from_pitch, rows.width);
  }
}

enum class Waits { no, yes };

/// `function` is what the program called. A plain cudaMemcpy waits for its end, but not between two device
/// addresses, nor from pageable memory to a device: then it waits for what the stream held before, and
/// returns when the data are staged (CUDA's "API synchronization behavior").
void copy(Machine& m, Lock& lock, const Origin& origin, const char* function, Side to, Side from, Rows rows,
          cudaMemcpyKind kind, cudaStream_t handle, Waits waits) {
  if (rows.width == 0 || rows.count == 0) return;
  require(to.pointer && from.pointer, cudaErrorInvalidValue);
  require(to.pitch >= rows.width && from.pitch >= rows.width, cudaErrorInvalidPitchValue);
  check_direction(m, to.pointer, from.pointer, kind);
  const StreamPtr stream = m.streams.get(handle);
  // A copy of pageable memory makes the host wait for its staging.
  const bool host_waits = waits == Waits::yes || pageable(m, from.pointer) || pageable(m, to.pointer);
  if (host_waits) m.captures.refuse_wait(*stream);

  Operation operation{Operation::Kind::copy, function, {}, {}};
  std::shared_ptr<std::vector<std::byte>> staged;
  if (!pageable(m, from.pointer)) {
    operation.accesses.push_back({from.pointer, from.begin() + rows.extent(from.pitch), false});
  } else {
    staged = std::make_shared<std::vector<std::byte>>(from.begin(), from.begin() + rows.extent(from.pitch));
  }
  const bool to_pageable = pageable(m, to.pointer);
  if (!to_pageable) {
    operation.accesses.push_back({to.pointer, to.begin() + rows.extent(to.pitch), true});
  }
  operation.run = [&m, to, from, rows, staged] {
    const std::byte* source = staged ? staged->data() : m.memory.view(from.pointer);
    copy_rows(m.memory.view(to.pointer), to.pitch, source, from.pitch, rows);
    return true;
  };
  if (waits == Waits::yes && staged && !to_pageable) {
    for (const NodePtr& before : m.streams.work_of(*stream)) m.scheduler.wait_for(lock, before);
  }
  m.enqueue(lock, stream, std::move(operation), origin);
  const bool leaves_host = on_device(m, to.pointer) && (staged || on_device(m, from.pointer));
  const bool returns_when_done = (waits == Waits::yes && !leaves_host) || to_pageable;
  if (returns_when_done && !stream->capture) m.scheduler.wait_for(lock, stream->tail);
}

void fill(Machine& m, Lock& lock, const Origin& origin, const char* function, Side to, int value, Rows rows,
          cudaStream_t handle) {
  if (rows.width == 0 || rows.count == 0) return;
  require(to.pointer && !pageable(m, to.pointer), cudaErrorInvalidValue);
  require(to.pitch >= rows.width, cudaErrorInvalidPitchValue);
  const Access access{to.pointer, to.begin() + rows.extent(to.pitch), true};
  const auto run = [&m, to, value, rows] {
    std::byte* begin = m.memory.view(to.pointer);
    for (std::size_t row = 0; row < rows.count; ++row) std::memset(begin + row * to.pitch, value, rows.width);
    return true;
  };
  m.enqueue(lock, m.streams.get(handle), {Operation::Kind::fill, function, {access}, run}, origin);
}

}  // namespace

cudaError_t cudaMemcpy(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind) {
  return call({__func__, cudaErrorIllegalAddress, caller()}, [&](Machine& m, Lock& lock,
                                                                 const Origin& origin) {
    copy(m, lock, origin, "cudaMemcpy", {dst, count}, {src, count}, {count, 1}, kind, nullptr, Waits::yes);
  });
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t count, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call({__func__, cudaErrorIllegalAddress, caller()}, [&](Machine& m, Lock& lock,
                                                                 const Origin& origin) {
    copy(m, lock, origin, "cudaMemcpyAsync", {dst, count}, {src, count}, {count, 1}, kind, stream, Waits::no);
  });
}

cudaError_t cudaMemcpy2D(void* dst, std::size_t dpitch, const void* src, std::size_t spitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return call({__func__, cudaErrorIllegalAddress, caller()},
              [&](Machine& m, Lock& lock, const Origin& origin) {
                copy(m, lock, origin, "cudaMemcpy2D", {dst, dpitch}, {src, spitch}, {width, height}, kind,
                     nullptr, Waits::yes);
              });
}

cudaError_t cudaMemcpy2DAsync(void* dst, std::size_t dpitch, const void* src, std::size_t spitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return call({__func__, cudaErrorIllegalAddress, caller()},
              [&](Machine& m, Lock& lock, const Origin& origin) {
                copy(m, lock, origin, "cudaMemcpy2DAsync", {dst, dpitch}, {src, spitch}, {width, height},
                     kind, stream, Waits::no);
              });
}

cudaError_t cudaMemcpyPeerAsync(void* dst, int, const void* src, int, std::size_t count,
                                cudaStream_t stream) {
  return call({__func__, cudaErrorIllegalAddress, caller()},
              [&](Machine& m, Lock& lock, const Origin& origin) {
                copy(m, lock, origin, "cudaMemcpyPeerAsync", {dst, count}, {src, count}, {count, 1},
                     cudaMemcpyDeviceToDevice, stream, Waits::no);
              });
}

cudaError_t cudaMemset(void* devPtr, int value, std::size_t count) {
  return call({__func__, cudaErrorIllegalAddress, caller()},
              [&](Machine& m, Lock& lock, const Origin& origin) {
                fill(m, lock, origin, "cudaMemset", {devPtr, count}, value, {count, 1}, nullptr);
              });
}

cudaError_t cudaMemsetAsync(void* devPtr, int value, std::size_t count, cudaStream_t stream) {
  return call({__func__, cudaErrorIllegalAddress, caller()},
              [&](Machine& m, Lock& lock, const Origin& origin) {
                fill(m, lock, origin, "cudaMemsetAsync", {devPtr, count}, value, {count, 1}, stream);
              });
}

cudaError_t cudaMemset2DAsync(void* devPtr, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  return call({__func__, cudaErrorIllegalAddress, caller()},
              [&](Machine& m, Lock& lock, const Origin& origin) {
                fill(m, lock, origin, "cudaMemset2DAsync", {devPtr, pitch}, value, {width, height}, stream);
              });
}
