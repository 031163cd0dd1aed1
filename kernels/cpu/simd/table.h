#pragma once

#include "kernels/spec.h"

namespace lockstep::kernels::simd {

template <class Op>
struct Entry {
  typename Op::Simd* run;
};

struct NoEntry {};

/// All SIMD kernels for one instruction set.
struct Table : NoEntry
#define LOCKSTEP_SIMD_OP(Op, header) , Entry<Op>
#include "kernels/ops.def"
{
};

}  // namespace lockstep::kernels::simd
