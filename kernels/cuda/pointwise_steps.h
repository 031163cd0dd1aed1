#pragma once

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/pointwise.h"
#include "kernels/pointwise_functions.h"

/// Steps of pointwise programs: those that are known when the kernel is compiled, and one of any kind.
namespace lockstep::kernels {

/// The value of one operand, the gradient of two.
template <class Function>
struct UnaryStep {
  __device__ float operator()(float x) const { return Function::template value<CudaMath>(x); }
  __device__ float operator()(float of, float dy) const {
    return Function::template gradient<CudaMath>(of, dy);
  }
};

/// The value of two operands, a gradient of three.
template <class Function, PointwisePart part>
struct BinaryStep {
  __device__ float operator()(float a, float b) const { return Function::template value<CudaMath>(a, b); }
  __device__ float operator()(float a, float b, float dy) const {
    if constexpr (part == PointwisePart::gradient) return Function::template gradient_a<CudaMath>(a, b, dy);
    return Function::template gradient_b<CudaMath>(a, b, dy);
  }
};

template <int lanes, class Step, class... Operands>
__device__ Floats<lanes> in_lanes(Step step, const Operands&... operands) {
  Floats<lanes> result;
  LOCKSTEP_UNROLL
  for (int lane = 0; lane < lanes; ++lane) result.at[lane] = step(operands.at[lane]...);
  return result;
}

__device__ inline bool is_binary(PointwiseFunction function) {
  switch (function) {
#define LOCKSTEP_BINARY(Function, name) \
  case PointwiseFunction::name:         \
    return true;
#include "kernels/pointwise.def"
    default:
      return false;
  }
}

/// A step of any kind, whose function is looked up once for all lanes. `operand(i)` gives its operands: few
/// steps hold the registers of three.
template <int lanes, class Operand>
__device__ Floats<lanes> apply(PointwiseFunction function, PointwisePart part, const Operand& operand) {
  const int operands = (is_binary(function) ? 2 : 1) + (part == PointwisePart::value ? 0 : 1);
  const Floats<lanes> a = operand(0);
  if (operands == 1) {
    switch (function) {
#define LOCKSTEP_UNARY(Function, name) \
  case PointwiseFunction::name:        \
    return in_lanes<lanes>(UnaryStep<pointwise::Function>{}, a);
#include "kernels/pointwise.def"
      default:
        return a;
    }
  }
  const Floats<lanes> b = operand(1);
  if (operands == 2) {
    switch (function) {
#define LOCKSTEP_UNARY(Function, name) \
  case PointwiseFunction::name:        \
    return in_lanes<lanes>(UnaryStep<pointwise::Function>{}, a, b);
#define LOCKSTEP_BINARY(Function, name) \
  case PointwiseFunction::name:         \
    return in_lanes<lanes>(BinaryStep<pointwise::Function, PointwisePart::gradient>{}, a, b);
#include "kernels/pointwise.def"
    }
  }
  const Floats<lanes> c = operand(2);
  switch (function) {
#define LOCKSTEP_BINARY(Function, name)                                                               \
  case PointwiseFunction::name:                                                                       \
    return part == PointwisePart::gradient                                                            \
               ? in_lanes<lanes>(BinaryStep<pointwise::Function, PointwisePart::gradient>{}, a, b, c) \
               : in_lanes<lanes>(BinaryStep<pointwise::Function, PointwisePart::gradient_b>{}, a, b, c);
#include "kernels/pointwise.def"
    default:
      return a;
  }
}

template <class Element>
struct ChainOutputs {
  Element* at[Pointwise::most_outputs];
};

template <class Element>
ChainOutputs<Element> chain_outputs(const Addresses& a) {
  ChainOutputs<Element> outputs;
  for (std::size_t i = 0; i < Pointwise::most_outputs; ++i) outputs.at[i] = a.out<Element>(i);
  return outputs;
}

}  // namespace lockstep::kernels
