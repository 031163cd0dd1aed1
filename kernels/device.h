#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace lockstep::kernels {

struct KernelSpec;
struct ConvAlgorithm;

enum class DeviceKind { cpu, cuda };

/// A point in a stream, once it has been recorded there.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool reached() = 0;
  virtual void synchronize() = 0;
};

/// An in-order queue of launches. On the CPU a launch runs at once on the calling thread and its team.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void synchronize() = 0;
  virtual void record(Event& event) = 0;
  /// What is launched here from now on comes after `event`, as last recorded.
  virtual void wait(Event& event) = 0;
};

/// Launches on one or more streams, recorded once and started again as a whole.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  virtual void launch(Stream& stream) = 0;
};

enum class StreamPriority { normal, high };

/// Memory, 64-byte aligned and zeroed; freed with the object.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual void* data() const = 0;
  virtual std::size_t bytes() const = 0;
};

/// Where a rank computes: memory, streams, copies, kernels.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;             ///< for people: the CPU's or GPU's model
  virtual std::string instruction_set() const = 0;  ///< what must be equal for equal bits, e.g. "avx512"
  virtual int threads() const = 0;
  /// Whether work on a stream goes on by itself after it was launched.
  virtual bool is_async() const { return false; }

  virtual std::unique_ptr<Memory> allocate(std::size_t bytes) = 0;
  /// Host memory that copies reach without a detour: pinned, where the device asks for that.
  virtual std::unique_ptr<Memory> allocate_host(std::size_t bytes) = 0;
  /// Bytes that `allocate` has handed out and that are still held.
  virtual std::size_t allocated_bytes() const = 0;
  /// Bytes that the device has lost since it was opened, by its driver's count: what `allocate` has handed
  /// out, libraries, code, graphs, and what other processes took meanwhile.
  virtual std::size_t used_bytes() const { return allocated_bytes(); }
  /// What is free of a GPU's memory now, which other processes may take too; nothing on the CPU.
  virtual std::optional<std::size_t> free_bytes() const { return std::nullopt; }
  /// Makes host memory that is there already as good as `allocate_host`'s, until the result goes; null where
  /// there is nothing to gain. The memory must outlive it.
  virtual std::unique_ptr<Memory> pin(std::span<std::byte>) { return nullptr; }
  /// A GPU's place on the PCI bus ("0000:3b:00.0"); empty on the CPU.
  virtual std::string bus_id() const { return {}; }
  virtual std::unique_ptr<Stream> make_stream(StreamPriority priority = StreamPriority::normal) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;

  virtual bool has_graphs() const { return false; }
  /// What `launches` puts on `stream`, and on streams that wait for it and that it waits for in the end:
  /// recorded, not run. Null on a device without graphs.
  virtual std::unique_ptr<CapturedGraph> capture(Stream&, const std::function<void()>&) { return nullptr; }

  /// In the stream's order. The host's bytes stay untouched until the stream has come there.
  virtual void copy_to_device(void* device, const void* host, std::size_t bytes, Stream& stream) = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes, Stream& stream) = 0;

  /// Of any op in `spec.h`; callers use the functions of `dispatch.h`.
  virtual KernelPtr make_kernel(const KernelSpec& spec, const KernelIo& io) const = 0;
  virtual void assign_layouts(const KernelSpec& spec, KernelIo& io) const = 0;
  virtual std::vector<ConvAlgorithm> offered_algorithms(const KernelSpec& spec, const KernelIo& io) const = 0;
};

/// The CPU with a team of `threads` compute threads, which flush denormals to zero. The calling thread
/// becomes the team's first: the device is used from that thread alone.
std::unique_ptr<Device> make_cpu_device(int threads);

}  // namespace lockstep::kernels
