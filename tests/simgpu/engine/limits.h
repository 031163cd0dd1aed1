#pragma once

#include <cstddef>

/// What a grid may ask for, as of compute capability 9.0.
namespace simgpu::limits {

inline constexpr unsigned warp_threads = 32;
inline constexpr unsigned block_threads = 1024;
inline constexpr unsigned block_x = 1024;
inline constexpr unsigned block_y = 1024;
inline constexpr unsigned block_z = 64;
inline constexpr unsigned grid_x = 2147483647;
inline constexpr unsigned grid_y = 65535;
inline constexpr unsigned grid_z = 65535;
inline constexpr std::size_t shared_bytes = 48 << 10;        ///< without asking for more
inline constexpr std::size_t most_shared_bytes = 227 << 10;  ///< after cudaFuncSetAttribute
inline constexpr std::size_t argument_bytes = 32764;

}  // namespace simgpu::limits
