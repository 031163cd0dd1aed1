#include "kernels/cpu/simd/table.h"

#include "kernels/cpu/simd/isa.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

#define LOCKSTEP_SIMD_OP(Op, header) Op::Simd run;
#include "kernels/ops.def"

extern const Table table;
const Table table{{}
#define LOCKSTEP_SIMD_OP(Op, header) \
  , {                                \
    run                              \
  }
#include "kernels/ops.def"
};

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
