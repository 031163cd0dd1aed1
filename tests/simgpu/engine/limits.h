#pragma once

#include <cstddef>

/// What a grid may ask for (CUDA programming guide, "Compute capabilities").
namespace simgpu::limits {

inline constexpr unsigned warp_threads = 32;
inline constexpr unsigned block_threads = 1024;
inline constexpr unsigned block_x = 1024;
inline constexpr unsigned block_y = 1024;
inline constexpr unsigned block_z = 64;
inline constexpr unsigned grid_x = 2147483647;
inline constexpr unsigned grid_y = 65535;
inline constexpr unsigned grid_z = 65535;
inline constexpr std::size_t shared_bytes = 48 << 10;  ///< of a block that did not ask for more
inline constexpr std::size_t argument_bytes = 32764;

/// What compute capabilities differ in.
struct OfMultiprocessor {
  int threads, blocks;
  std::size_t shared_bytes;
  std::size_t reserved_bytes;  ///< of them, for each block

  /// Of a block, static and dynamic, after cudaFuncSetAttribute.
  constexpr std::size_t most_shared_bytes() const { return shared_bytes - reserved_bytes; }
};

constexpr OfMultiprocessor of_multiprocessor(int capability) {
  constexpr std::size_t kib = 1024;
  if (capability >= 120) return {1536, 24, 100 * kib, kib};
  if (capability >= 110) return {1536, 24, 228 * kib, kib};
  if (capability >= 90) return {2048, 32, 228 * kib, kib};
  if (capability == 89) return {1536, 24, 100 * kib, kib};
  if (capability == 87) return {1536, 16, 164 * kib, kib};
  if (capability == 86) return {1536, 16, 100 * kib, kib};
  if (capability >= 80) return {2048, 32, 164 * kib, kib};
  if (capability >= 75) return {1024, 16, 64 * kib, 0};
  return {2048, 32, 96 * kib, 0};
}

inline constexpr std::size_t most_shared_bytes = of_multiprocessor(90).most_shared_bytes();  ///< of any GPU

}  // namespace simgpu::limits
