#include "kernels/cpu/loops/isa.h"

#define LOCKSTEP_TEXT_OF(name) #name
#define LOCKSTEP_TEXT(name) LOCKSTEP_TEXT_OF(name)

namespace lockstep::kernels::loops::LOCKSTEP_ISA {

extern const Loops table;
const Loops table{
    .name = LOCKSTEP_TEXT(LOCKSTEP_ISA),
    .relu = relu,
    .relu_backward = relu_backward,
    .add = add,
    .max_pool = max_pool,
    .max_pool_backward = max_pool_backward,
    .avg_pool = avg_pool,
    .avg_pool_backward = avg_pool_backward,
    .cross_entropy = cross_entropy,
    .squared_error = squared_error,
    .sum_of_squares = sum_of_squares,
    .sgd = sgd,
    .adam = adam,
    .linear = linear,
    .linear_backward_data = linear_backward_data,
    .linear_backward_weights = linear_backward_weights,
};

}  // namespace lockstep::kernels::loops::LOCKSTEP_ISA
