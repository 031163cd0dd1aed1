#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Bytes between device memory and the kernels, counted where kernels are compiled with a call at each load
/// and store (tests/gpu/traffic).
namespace [[gnu::visibility("default")]] simgpu {

/// What one launch moved. A cache lies between, as a GPU's L2 does: least recently used, empty before the
/// launch and written back after it, in units that a GPU reads and writes at least. It has `cache_bytes`, so
/// that tensors of some 100 KiB stand to it as a model's stand to a GPU's. Blocks run one after the other, so
/// what they share stays in it if it is small or used again soon.
struct KernelTraffic {
  static constexpr std::size_t cache_bytes = std::size_t{64} << 10;
  static constexpr std::size_t sector_bytes = 32;

  std::string kernel;
  std::string grid;  ///< "(8,1,1) x (256,1,1)"
  std::uint64_t needed =
      0;  ///< bytes that it read and did not write before, and bytes that it wrote: each once
  std::uint64_t moved = 0;     ///< bytes of the sectors that went through the cache's far end
  std::uint64_t accesses = 0;  ///< loads and stores of device memory
};

/// From here on launches are counted.
void start_counting_traffic();
/// The launches since the last call, in the order in which they ran.
std::vector<KernelTraffic> take_traffic();

/// Called at each load and store of a kernel.
void note_access(const void* address, std::size_t bytes, bool writes);

}  // namespace simgpu
