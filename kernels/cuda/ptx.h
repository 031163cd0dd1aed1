#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

/// Instructions that CUDA C++ has no words for. portability.h, which alone includes this, has their twins in
/// software.
namespace lockstep::kernels {

/// The GPU's clock, which all its kernels share and replays of a graph read anew. It advances in steps of up
/// to a microsecond.
__device__ inline std::uint64_t device_nanoseconds() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

/// sums += a b, of 16 x 16 and 16 x 8 elements that a warp holds as mma.m16n8k16 says. From 8.0 on.
template <class Element>
__device__ void multiply_tiles(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<Element, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    static_assert(std::is_same_v<Element, __nv_bfloat16>);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else
  __trap();
#endif
}

/// 16 x 16 elements of shared memory, whose rows are `row` words of 16 bytes apart: four matrices as
/// ldmatrix.x4 lays them out, first the rows 0 to 7 and 8 to 15 of the left columns, then those of the right.
template <bool transposes>
__device__ void load_tile(std::uint32_t (&words)[4], const uint4* tile, int row) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(tile + lane % 16 * row + lane / 16));
  if constexpr (transposes) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  }
}

/// Begins to copy a number, or 16 bytes, from memory to shared memory or, where they are not there, to write
/// zeros. From 8.0 on.
template <class Word>
__device__ void begin_copy(Word* to, const Word* from, bool is_there) {
  static_assert(sizeof(Word) == 4 || sizeof(Word) == 16);
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const auto bytes = static_cast<unsigned>(is_there ? sizeof(Word) : 0);
  if constexpr (sizeof(Word) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(bytes)
                 : "memory");
  }
#else
  __trap();
#endif
}

/// Waits for all copies that the thread has begun; others see them behind a barrier.
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// 2^x to 2 ulp, what is below the normal numbers as 0: one instruction.
__device__ inline float fast_exp2(float x) {
  float y = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace lockstep::kernels
