#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/simgpu/language/keywords.h"

// Real atomic operations, though threads of a grid take turns here: ThreadSanitizer tells them from plain
// accesses. Relaxed, as CUDA's are.
namespace simgpu {

template <std::size_t bytes>
struct WordOf;
template <>
struct WordOf<2> {
  using type = std::uint16_t;
};
template <>
struct WordOf<4> {
  using type = std::uint32_t;
};
template <>
struct WordOf<8> {
  using type = std::uint64_t;
};

/// Replaces *address by change(*address); returns what was there.
template <typename T, typename Change>
T atomic_change(T* address, Change change) {
  using Word = typename WordOf<sizeof(T)>::type;
  auto* word = reinterpret_cast<Word*>(address);
  Word seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    T before;
    std::memcpy(static_cast<void*>(&before), &seen, sizeof(T));
    const T after = change(before);
    Word wanted;
    std::memcpy(&wanted, &after, sizeof(T));
    if (__atomic_compare_exchange_n(word, &seen, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return before;
  }
}

template <typename T>
T atomic_compare_and_swap(T* address, T expected, T wanted) {
  __atomic_compare_exchange_n(address, &expected, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

}  // namespace simgpu

#define SIMGPU_ATOMIC(name, type, builtin)            \
  inline type name(type* address, type value) {       \
    return builtin(address, value, __ATOMIC_RELAXED); \
  }
#define SIMGPU_ATOMIC_CHANGE(name, type, expression)                                            \
  inline type name(type* address, type value) {                                                 \
    return simgpu::atomic_change(address, [value](type before) -> type { return expression; }); \
  }

SIMGPU_ATOMIC(atomicAdd, int, __atomic_fetch_add)
SIMGPU_ATOMIC(atomicAdd, unsigned, __atomic_fetch_add)
SIMGPU_ATOMIC(atomicAdd, unsigned long long, __atomic_fetch_add)
SIMGPU_ATOMIC_CHANGE(atomicAdd, float, before + value)
SIMGPU_ATOMIC_CHANGE(atomicAdd, double, before + value)
SIMGPU_ATOMIC_CHANGE(atomicAdd, __half, __hadd(before, value))
SIMGPU_ATOMIC_CHANGE(atomicAdd, __half2, __hadd2(before, value))
SIMGPU_ATOMIC_CHANGE(atomicAdd, __nv_bfloat16, __hadd(before, value))
SIMGPU_ATOMIC_CHANGE(atomicAdd, __nv_bfloat162, __hadd2(before, value))

SIMGPU_ATOMIC(atomicSub, int, __atomic_fetch_sub)
SIMGPU_ATOMIC(atomicSub, unsigned, __atomic_fetch_sub)

SIMGPU_ATOMIC(atomicExch, int, __atomic_exchange_n)
SIMGPU_ATOMIC(atomicExch, unsigned, __atomic_exchange_n)
SIMGPU_ATOMIC(atomicExch, unsigned long long, __atomic_exchange_n)
SIMGPU_ATOMIC_CHANGE(atomicExch, float, (static_cast<void>(before), value))

SIMGPU_ATOMIC_CHANGE(atomicMin, int, before < value ? before : value)
SIMGPU_ATOMIC_CHANGE(atomicMin, unsigned, before < value ? before : value)
SIMGPU_ATOMIC_CHANGE(atomicMin, long long, before < value ? before : value)
SIMGPU_ATOMIC_CHANGE(atomicMin, unsigned long long, before < value ? before : value)
SIMGPU_ATOMIC_CHANGE(atomicMax, int, before > value ? before : value)
SIMGPU_ATOMIC_CHANGE(atomicMax, unsigned, before > value ? before : value)
SIMGPU_ATOMIC_CHANGE(atomicMax, long long, before > value ? before : value)
SIMGPU_ATOMIC_CHANGE(atomicMax, unsigned long long, before > value ? before : value)

SIMGPU_ATOMIC_CHANGE(atomicInc, unsigned, before >= value ? 0u : before + 1u)
SIMGPU_ATOMIC_CHANGE(atomicDec, unsigned, before == 0u || before > value ? value : before - 1u)

SIMGPU_ATOMIC(atomicAnd, int, __atomic_fetch_and)
SIMGPU_ATOMIC(atomicAnd, unsigned, __atomic_fetch_and)
SIMGPU_ATOMIC(atomicAnd, unsigned long long, __atomic_fetch_and)
SIMGPU_ATOMIC(atomicOr, int, __atomic_fetch_or)
SIMGPU_ATOMIC(atomicOr, unsigned, __atomic_fetch_or)
SIMGPU_ATOMIC(atomicOr, unsigned long long, __atomic_fetch_or)
SIMGPU_ATOMIC(atomicXor, int, __atomic_fetch_xor)
SIMGPU_ATOMIC(atomicXor, unsigned, __atomic_fetch_xor)
SIMGPU_ATOMIC(atomicXor, unsigned long long, __atomic_fetch_xor)
#undef SIMGPU_ATOMIC
#undef SIMGPU_ATOMIC_CHANGE

inline int atomicCAS(int* address, int expected, int wanted) {
  return simgpu::atomic_compare_and_swap(address, expected, wanted);
}
inline unsigned atomicCAS(unsigned* address, unsigned expected, unsigned wanted) {
  return simgpu::atomic_compare_and_swap(address, expected, wanted);
}
inline unsigned short atomicCAS(unsigned short* address, unsigned short expected, unsigned short wanted) {
  return simgpu::atomic_compare_and_swap(address, expected, wanted);
}
inline unsigned long long atomicCAS(unsigned long long* address, unsigned long long expected,
                                    unsigned long long wanted) {
  return simgpu::atomic_compare_and_swap(address, expected, wanted);
}
