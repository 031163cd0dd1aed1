#include "tests/unit/kernels/simd_math/probe.h"

// The instruction sets that the loops are compiled for: LOCKSTEP_ISA_SIMD(avx2) and so on, from CMake.
namespace lockstep::kernels::test {

#define LOCKSTEP_ISA_SIMD(isa)  \
  namespace isa {               \
  extern const MathLoops loops; \
  }
#include "tests/unit/kernels/simd_math/isas.def"
#undef LOCKSTEP_ISA_SIMD

const MathLoops& math_loops(std::size_t index) {
  const MathLoops* const all[] = {
#define LOCKSTEP_ISA_SIMD(isa) &isa::loops,
#include "tests/unit/kernels/simd_math/isas.def"
  };
  return *all[index];
}

}  // namespace lockstep::kernels::test
