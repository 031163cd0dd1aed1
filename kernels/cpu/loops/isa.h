#pragma once

#include "kernels/cpu/loops/loops.h"

// LOCKSTEP_ISA names the instruction set for which the including source is being compiled. Such a source uses
// nothing inline from elsewhere, since the linker keeps a single copy of an inline function, whatever its
// flags.
#ifndef LOCKSTEP_ISA
#error "compile the loops through kernels/cpu/CMakeLists.txt, which defines LOCKSTEP_ISA"
#endif

namespace lockstep::kernels::loops::LOCKSTEP_ISA {

void relu(const float* x, float* y, std::int64_t n);
void relu_backward(const float* y, const float* dy, float* dx, std::int64_t n);
void add(const float* a, const float* b, float* sum, std::int64_t n);
void max_pool(const PoolPlane& plane, const float* x, float* y);
void max_pool_backward(const PoolPlane& plane, bool relu_mask, const float* x, const float* dy, float* dx);
void avg_pool(const PoolPlane& plane, const float* x, float* y);
void avg_pool_backward(const PoolPlane& plane, const float* dy, float* dx);
void cross_entropy(const Rows& rows, float smoothing, const float* logits, const std::int64_t* targets,
                   float* gradient, RowLoss* losses);
void squared_error(const Rows& rows, const float* y, const float* targets, float* gradient, RowLoss* losses);
double sum_of_squares(const float* x, std::int64_t n);
void sgd(const SgdUpdate& spec, const StepState& state, const float* gradient, float* parameter,
         float* buffer, std::int64_t n);
void adam(const AdamUpdate& spec, const StepState& state, const float* gradient, float* parameter,
          float* exp_avg, float* exp_avg_sq, std::int64_t n);
void linear(const SmallLinear& size, bool relu, const float* x, const float* w, const float* b, float* y);
void linear_backward_data(const SmallLinear& size, const float* dy, const float* w, float* dx);
void linear_backward_weights(const SmallLinear& size, const float* x, const float* dy, float* dw, float* db);

}  // namespace lockstep::kernels::loops::LOCKSTEP_ISA
