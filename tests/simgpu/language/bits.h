#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline long long __double_as_longlong(double x) {
  return std::bit_cast<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return std::bit_cast<double>(x);
}

inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __popcll(unsigned long long x) {
  return std::popcount(x);
}
inline int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
  return std::countl_zero(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
  return reversed;
}

inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>(std::uint64_t{x} * y >> 32);
}
inline int __mulhi(int x, int y) {
  return static_cast<int>(std::int64_t{x} * y >> 32);
}
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(static_cast<Wide>(x) * y >> 64);
}
/// The high word of (high:low) shifted left by the low five bits of `shift`.
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) << (shift & 31u) >> 32);
}
/// The low word of (high:low) shifted right.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (shift & 31u));
}
/// Four of the eight bytes of (y:x), each chosen by a digit of `selector`; a digit's top bit spreads the
/// byte's sign.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (unsigned at = 0; at < 4; ++at) {
    const unsigned digit = selector >> 4 * at & 0xfu;
    auto byte = static_cast<unsigned>(bytes >> 8 * (digit & 7u)) & 0xffu;
    if (digit & 8u) byte = byte & 0x80u ? 0xffu : 0u;
    result |= byte << 8 * at;
  }
  return result;
}

namespace simgpu {

/// Converts as the GPU does: what does not fit becomes the nearest value that does, NaN becomes 0.
template <typename Integer, typename Float>
Integer saturating_cast(Float rounded) {
  if (std::isnan(rounded)) return 0;
  // Both bounds are powers of two (or one less) and exact after the conversion, or rounded up to one.
  if (rounded <= static_cast<Float>(std::numeric_limits<Integer>::min()))
    return std::numeric_limits<Integer>::min();
  if (rounded >= static_cast<Float>(std::numeric_limits<Integer>::max()))
    return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(rounded);
}

}  // namespace simgpu

#define SIMGPU_ROUNDED(from, from_name, to, to_name)       \
  inline to __##from_name##2##to_name##_rn(from x) {       \
    return simgpu::saturating_cast<to>(std::nearbyint(x)); \
  }                                                        \
  inline to __##from_name##2##to_name##_rd(from x) {       \
    return simgpu::saturating_cast<to>(std::floor(x));     \
  }                                                        \
  inline to __##from_name##2##to_name##_ru(from x) {       \
    return simgpu::saturating_cast<to>(std::ceil(x));      \
  }                                                        \
  inline to __##from_name##2##to_name##_rz(from x) {       \
    return simgpu::saturating_cast<to>(std::trunc(x));     \
  }
SIMGPU_ROUNDED(float, float, int, int)
SIMGPU_ROUNDED(float, float, unsigned, uint)
SIMGPU_ROUNDED(float, float, long long, ll)
SIMGPU_ROUNDED(float, float, unsigned long long, ull)
SIMGPU_ROUNDED(double, double, int, int)
SIMGPU_ROUNDED(double, double, unsigned, uint)
SIMGPU_ROUNDED(double, double, long long, ll)
#undef SIMGPU_ROUNDED

inline float __int2float_rn(int x) {
  return static_cast<float>(x);
}
inline float __uint2float_rn(unsigned x) {
  return static_cast<float>(x);
}
inline float __ll2float_rn(long long x) {
  return static_cast<float>(x);
}
inline float __double2float_rn(double x) {
  return static_cast<float>(x);
}
