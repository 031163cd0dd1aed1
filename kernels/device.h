#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/stream.h"

namespace lockstep::kernels {

/// Memory of a device or of the host, aligned to cache lines (64 bytes) and zeroed; freed with the object.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual void* data() const = 0;
  virtual std::size_t bytes() const = 0;
};

struct KernelSpec;
struct Algorithm;
class PlanStore;

/// Where a rank computes: memory, streams, copies, kernels.
class Device {
 public:
  virtual ~Device() = default;
  /// The one question that tells devices apart: what is no CPU is a GPU, whoever made it.
  virtual bool is_cpu() const { return false; }
  virtual std::string name() const = 0;             ///< for people: the CPU's or GPU's model
  virtual std::string instruction_set() const = 0;  ///< what must be equal for equal bits, e.g. "avx512"
  virtual int threads() const = 0;
  /// Whether it has arithmetic on bf16; a GPU of before compute capability 8.0 has not.
  virtual bool has_bf16() const { return true; }
  /// Whether a launch returns before its work is done.
  virtual bool is_async() const { return false; }

  virtual std::unique_ptr<Memory> allocate(std::size_t bytes) = 0;
  /// Host memory that the device copies from and to directly: pinned memory on a GPU.
  virtual std::unique_ptr<Memory> allocate_host(std::size_t bytes) = 0;
  /// Bytes from `allocate` that are not freed yet.
  virtual std::size_t allocated_bytes() const = 0;
  /// Bytes of the device in use more than when it was opened, as its driver counts them: allocations,
  /// libraries, code, graphs, and the allocations of other processes.
  virtual std::size_t used_bytes() const { return allocated_bytes(); }
  /// A GPU's free memory, which other processes may take too; no value on the CPU.
  virtual std::optional<std::size_t> free_bytes() const { return std::nullopt; }
  /// Pins existing host memory, which must outlive the result; the result's destructor unpins it. Null on a
  /// device that gains nothing from pinned memory.
  virtual std::unique_ptr<Memory> pin(std::span<std::byte>) { return nullptr; }
  /// A GPU's PCI address ("0000:3b:00.0"); empty on the CPU.
  virtual std::string bus_id() const { return {}; }
  virtual std::unique_ptr<Stream> make_stream(StreamPriority priority = StreamPriority::normal) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;

  virtual bool has_graphs() const { return false; }
  /// Captures the work that `launches` enqueues on `stream` and on streams forked from and joined to it,
  /// without running it. Null on a device without graphs.
  virtual std::unique_ptr<CapturedGraph> capture(Stream&, const std::function<void()>&) { return nullptr; }

  /// Enqueues a copy. The caller keeps the host's bytes valid and unchanged until the stream has reached it.
  virtual void copy_to_device(void* device, const void* host, std::size_t bytes, Stream& stream) = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes, Stream& stream) = 0;

  /// What its library compiles is looked up there first, and kept there. Nothing on a device whose library
  /// compiles nothing.
  virtual void keep_plans_in(std::shared_ptr<const PlanStore>) {}

  /// For any op of `spec.h`; callers use the functions of `dispatch.h`.
  virtual KernelPtr make_kernel(const KernelSpec& spec, const KernelIo& io) const = 0;
  virtual void assign_layouts(const KernelSpec& spec, KernelIo& io) const = 0;
  virtual std::vector<Algorithm> offered_algorithms(const KernelSpec& spec, const KernelIo& io) const = 0;
};

/// The CPU with a team of `threads` compute threads, which flush denormals to zero. The calling thread
/// becomes the team's first: the device is used from that thread alone.
std::unique_ptr<Device> make_cpu_device(int threads);

}  // namespace lockstep::kernels
