#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace simgpu {

/// Bytes of device (or pinned) memory that an operation touches. `end` null: to the end of the allocation, or
/// of the sub-range registered there.
struct Access {
  const void* begin;
  const void* end;
  bool writes;
  bool guessed = false;  ///< two neighbouring 32-bit numbers may look like an address
};

/// A piece of work for a stream.
struct Operation {
  enum class Kind { kernel, copy, fill, library, host_call, collective };

  Kind kind;
  std::string name;
  std::vector<Access> accesses;
  /// Does the work; false: not yet (a peer is missing), ask again later. Called anew at each replay of a
  /// captured graph, from whichever thread drives the streams, with the stream's device as the current one.
  std::function<bool()> run;
  /// "file.cu:12" of the launch, for reports; empty: the machine tells where the call came from.
  std::string site = {};
};

/// Appends to `stream` (null: legacy default stream), or to the graph that is captured from it. Returns
/// CUDA's sticky error, if any.
cudaError_t enqueue(cudaStream_t stream, Operation operation);

/// The simulator's own always-open mapping of a device or pinned address (any other address: itself): what
/// copies, library twins and collectives work on. Kernels get the device address itself; the arena is opened
/// (PROT_READ|WRITE) only while an Operation of kind kernel runs.
std::byte* host_view(const void* device);

bool is_device_address(const void* address);
/// From the address to the end of its allocation; 0: it lies in none.
std::size_t bytes_to_end(const void* address);

/// The calling thread's device, as cudaSetDevice left it; in Operation::run the stream's.
int current_device();
/// The number that a device of this process has on the machine.
int physical_device(int device);

/// Tells that [address, address + bytes) is used as a buffer of its own, so that a pointer into it reaches to
/// its end and not to the end of the whole allocation. Forgotten when the allocation is freed.
void register_range(const void* address, std::size_t bytes);

/// As a kernel's failure does: every CUDA call of the process gives this error from now on.
void set_sticky_error(cudaError_t error);

/// How often a CUDA function was called in this process, failed calls included. Kernel launches count as
/// "cudaLaunchKernel".
std::uint64_t call_count(std::string_view function);

/// Counts a call of a library's that is none of CUDA's, for call_count and SIMGPU_CALLS.
void count_call(std::string_view function);

/// For a call of a library's at its beginning: the mistake "error left behind" if an earlier call of this
/// thread has failed and nobody asked for its error, as `cudaErrorNotReady` of a query. Libraries look at
/// cudaGetLastError behind their own launches.
void refuse_error_left_behind(std::string_view function);

/// A mistake of the program under test, e.g. {"missing event", "…who, where, the hint"}: written to stderr as
/// `simgpu: KIND: TEXT`, then the process ends with code 86; a test may install a handler that throws
/// instead.
[[noreturn]] void report_mistake(std::string_view kind, const std::string& text);

/// Called in place of ending the process; must throw. Empty: the default again. Returns the handler before.
using MistakeHandler = std::function<void(std::string_view kind, const std::string& text)>;
MistakeHandler set_mistake_handler(MistakeHandler handler);

}  // namespace simgpu
