#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tests/simgpu/engine/site.h"

/// What a running CUDA thread can ask of the engine; language/ gives these their CUDA names.
namespace [[gnu::visibility("default")]] simgpu {

/// A call that threads wait in, as it is named in reports.
struct Call {
  const char* name;
  Site site;
};

/// Waits until all threads of the block are in the same call.
void block_barrier(const Call& call);
/// The same, and adds up what each thread brings.
int block_sum(const Call& call, int value);

/// The value that the source lane of the calling lane brought. All lanes of the mask meet in it.
std::uint64_t warp_shuffle(const Call& call, std::uint32_t mask, std::uint64_t value, int source);
/// Bit i is set when lane i of the mask brought true.
std::uint32_t warp_ballot(const Call& call, std::uint32_t mask, bool predicate);
/// Bit i is set when lane i of the mask brought the same value as the calling lane.
std::uint32_t warp_match(const Call& call, std::uint32_t mask, std::uint64_t value);
/// `combine` over what all lanes of the mask brought.
using Combine = std::uint32_t (*)(std::uint32_t, std::uint32_t);
std::uint32_t warp_reduce(const Call& call, std::uint32_t mask, std::uint32_t value, Combine combine);
/// A lane's part of 16 x 16 and 16 x 8 half types and of the sums of their products, as PTX lays out
/// mma.m16n8k16.
struct WarpProduct {
  std::array<std::uint32_t, 4> a;
  std::array<std::uint32_t, 2> b;
  std::array<float, 4> sums;
};
/// Adds the product of what all lanes brought to the sums. `widen` knows the half type.
using Widen = float (*)(std::uint16_t bits);
void warp_product(const Call& call, WarpProduct& product, Widen widen);
/// Waits for all lanes of the mask. Alone among the warp's calls it also orders memory.
void warp_barrier(const Call& call, std::uint32_t mask);

/// The calling thread's lane in its warp.
int lane_index();

/// Lets other threads of the block go on first.
void yield_thread();

/// The block's dynamic shared memory.
void* dynamic_shared_memory(const Site& site);

/// Tells of a static shared array followed by `guard_bytes` of guard, at every thread's start of use. The
/// first thread of a block fills it, so that nobody relies on what the block before left.
void use_static_shared(std::byte* data, std::size_t bytes, std::size_t guard_bytes);

/// A copy from memory to shared memory that a thread has begun. Where it is not there, zeros are written.
struct BegunCopy {
  void* to;
  const void* from;
  std::size_t bytes;
  bool is_there;
  Site site;
};
/// Keeps it until the calling thread takes it. A thread that ends without that has made a mistake.
void keep_copy(const BegunCopy& copy);
/// The calling thread's next copy, the oldest first. False: it has no more.
bool take_copy(BegunCopy& copy);

/// Stops the grid as a trap instruction does.
[[noreturn]] void trap(const Call& call);

/// Stops the grid as an access does whose address is no multiple of `alignment`: cudaErrorMisalignedAddress.
[[noreturn]] void misaligned_access(const void* address, std::size_t alignment, const Site& site);

/// Orders the thread's memory accesses; outside of the instrumented code, where ThreadSanitizer has no
/// fences.
void memory_fence();

}  // namespace simgpu
