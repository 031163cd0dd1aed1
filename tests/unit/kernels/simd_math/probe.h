#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::kernels::test {

/// y[i] = f(x[i]), compiled as the CPU's loops are.
using MathLoop = void(const float* x, float* y, std::int64_t n);

/// kernels/cpu/simd/math.h for one instruction set.
struct MathLoops {
  MathLoop* exp_negative;
  MathLoop* exp_or_zero;
  MathLoop* exp;
  MathLoop* tanh;
  MathLoop* sigmoid;
  MathLoop* erf;
  MathLoop* rsqrt;
  MathLoop* copy;  ///< no function: what moving the numbers takes
};

/// By the position of the instruction set in `simd::instruction_sets()`.
const MathLoops& math_loops(std::size_t index);

}  // namespace lockstep::kernels::test
