#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace lockstep::kernels {

enum class DeviceKind { cpu, cuda };

/// An in-order queue of launches. On the CPU a launch runs at once on the calling thread and its team.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void synchronize() = 0;
};

/// Device memory, 64-byte aligned and zeroed; freed with the object.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual void* data() const = 0;
  virtual std::size_t bytes() const = 0;
};

/// Where a rank computes: memory, streams, copies. Created by `make_device`.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;  ///< for people: the CPU's or GPU's model
  virtual std::string instruction_set() const = 0;  ///< what must be equal for equal bits, e.g. "avx512"
  virtual int threads() const = 0;

  virtual std::unique_ptr<Memory> allocate(std::size_t bytes) = 0;
  /// Bytes that `allocate` has handed out and that are still held.
  virtual std::size_t allocated_bytes() const = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;

  virtual void copy_to_device(void* device, const void* host, std::size_t bytes, Stream& stream) = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes, Stream& stream) = 0;
};

/// The CPU with a team of `threads` compute threads, which flush denormals to zero. The calling thread becomes
/// the team's first: the device is used from that thread alone.
std::unique_ptr<Device> make_cpu_device(int threads);

}  // namespace lockstep::kernels
