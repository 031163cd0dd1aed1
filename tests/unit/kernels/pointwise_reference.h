#pragma once

#include "kernels/pointwise.h"
#include "tests/unit/kernels/harness.h"

/// Pointwise programs in double precision, element by element.
namespace lockstep::kernels::test {

double pointwise_step(const Pointwise::Step& step, double a, double b, double c);

/// The outputs of the program, each of the shape that all inputs broadcast to.
std::vector<Values> pointwise(const Pointwise& op, const std::vector<Values>& inputs);

/// The gradient of a unary function takes its output in place of its input.
bool gradient_takes_output(PointwiseFunction function);

/// Every function with its values and gradients, one step each.
std::vector<Pointwise> all_single_steps();

/// Those that pointwise kernels of the device under test have.
std::vector<DType> pointwise_dtypes();

/// Steps are computed in f32 to a few of its roundings, and what is written is rounded once to `dtype`.
void require_rounded(const Values& got, const Values& wanted, DType dtype);

/// Tensors of one dtype, their layouts open.
KernelIo pointwise_io(const Pointwise& op, const std::vector<Values>& inputs, DType dtype);

/// Runs the program with layouts that the kernel chooses and compares with the reference.
void check_pointwise(const Pointwise& op, const std::vector<Values>& inputs, DType dtype);

}  // namespace lockstep::kernels::test
