#pragma once

/// A function that both a kernel on a GPU and the CPU's loops use. Always inlined: the loops are compiled
/// once per instruction set, and the linker would keep a single copy of it.
#ifdef __CUDACC__
#define LOCKSTEP_INLINE __host__ __device__ __forceinline__
#else
#define LOCKSTEP_INLINE [[gnu::always_inline]] inline
#endif
