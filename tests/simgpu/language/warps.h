#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/simgpu/engine/device_calls.h"
#include "tests/simgpu/language/keywords.h"

namespace simgpu {

template <typename T, typename... Choices>
inline constexpr bool is_any_of = (std::is_same_v<T, Choices> || ...);

/// The types that CUDA's shuffles have overloads for.
template <typename T>
concept Shuffled = is_any_of<T, int, unsigned, long, unsigned long, long long, unsigned long long, float,
                             double, __half, __half2, __nv_bfloat16, __nv_bfloat162>;
template <typename T>
concept Matched =
    is_any_of<T, int, unsigned, long, unsigned long, long long, unsigned long long, float, double>;

template <typename T>
std::uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <typename T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

template <Shuffled T>
T shuffle(const Call& call, unsigned mask, T value, int source) {
  return from_bits<T>(warp_shuffle(call, mask, to_bits(value), source));
}

}  // namespace simgpu

// Lanes read inside segments of `width` lanes, a power of two; out of the segment they read themselves.
template <simgpu::Shuffled T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
              simgpu::Site site = simgpu::Site::here()) {
  const int first = simgpu::lane_index() & ~(width - 1);
  return simgpu::shuffle({"__shfl_sync", site}, mask, value, first | (source & (width - 1)));
}

template <simgpu::Shuffled T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 simgpu::Site site = simgpu::Site::here()) {
  const int lane = simgpu::lane_index();
  const int source = lane - static_cast<int>(delta);
  const int first = lane & ~(width - 1);
  return simgpu::shuffle({"__shfl_up_sync", site}, mask, value, source < first ? lane : source);
}

template <simgpu::Shuffled T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   simgpu::Site site = simgpu::Site::here()) {
  const int lane = simgpu::lane_index();
  const int source = lane + static_cast<int>(delta);
  const int last = lane | (width - 1);
  return simgpu::shuffle({"__shfl_down_sync", site}, mask, value, source > last ? lane : source);
}

template <simgpu::Shuffled T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize,
                  simgpu::Site site = simgpu::Site::here()) {
  const int lane = simgpu::lane_index();
  const int source = lane ^ lane_mask;
  const int last = lane | (width - 1);
  return simgpu::shuffle({"__shfl_xor_sync", site}, mask, value, source > last ? lane : source);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, simgpu::Site site = simgpu::Site::here()) {
  return simgpu::warp_ballot({"__ballot_sync", site}, mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate, simgpu::Site site = simgpu::Site::here()) {
  return simgpu::warp_ballot({"__any_sync", site}, mask, predicate != 0) != 0;
}
inline int __all_sync(unsigned mask, int predicate, simgpu::Site site = simgpu::Site::here()) {
  return simgpu::warp_ballot({"__all_sync", site}, mask, predicate == 0) == 0;
}
/// A GPU may run any lanes together, so the strictest right answer is the calling one alone.
inline unsigned __activemask() {
  return 1u << simgpu::lane_index();
}
template <simgpu::Matched T>
unsigned __match_any_sync(unsigned mask, T value, simgpu::Site site = simgpu::Site::here()) {
  return simgpu::warp_match({"__match_any_sync", site}, mask, simgpu::to_bits(value));
}

#define SIMGPU_WARP_REDUCTION(name, type, expression)                                                    \
  inline type name(unsigned mask, type value, simgpu::Site site = simgpu::Site::here()) {                \
    return static_cast<type>(simgpu::warp_reduce({#name, site}, mask, static_cast<std::uint32_t>(value), \
                                                 [](std::uint32_t left, std::uint32_t right) {           \
                                                   const auto a = static_cast<type>(left);               \
                                                   const auto b = static_cast<type>(right);              \
                                                   return static_cast<std::uint32_t>(expression);        \
                                                 }));                                                    \
  }
SIMGPU_WARP_REDUCTION(__reduce_add_sync, unsigned, a + b)
SIMGPU_WARP_REDUCTION(__reduce_min_sync, unsigned, a < b ? a : b)
SIMGPU_WARP_REDUCTION(__reduce_max_sync, unsigned, a > b ? a : b)
SIMGPU_WARP_REDUCTION(__reduce_min_sync, int, a < b ? a : b)
SIMGPU_WARP_REDUCTION(__reduce_max_sync, int, a > b ? a : b)
SIMGPU_WARP_REDUCTION(__reduce_and_sync, unsigned, a& b)
SIMGPU_WARP_REDUCTION(__reduce_or_sync, unsigned, a | b)
SIMGPU_WARP_REDUCTION(__reduce_xor_sync, unsigned, a ^ b)
#undef SIMGPU_WARP_REDUCTION
inline int __reduce_add_sync(unsigned mask, int value, simgpu::Site site = simgpu::Site::here()) {
  return static_cast<int>(__reduce_add_sync(mask, static_cast<unsigned>(value), site));
}
