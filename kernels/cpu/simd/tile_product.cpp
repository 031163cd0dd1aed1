#include "kernels/cpu/simd/tile_squares.h"

// Compiled with contraction: these are sums, and a fused multiply-add is half of two operations.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {

void run(const TileProduct& p, const void* a, const void* b, float* c) {
  const Configuration configured;
  multiply(p, a, b, c);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
