#include "tests/unit/kernels/simd_math/probe.h"

namespace lockstep::kernels::test {

namespace baseline {
extern const MathLoops loops;
}
#if LOCKSTEP_X86_LOOPS
namespace avx2 {
extern const MathLoops loops;
}
namespace avx512 {
extern const MathLoops loops;
}
#endif

const MathLoops& math_loops(std::size_t index) {
#if LOCKSTEP_X86_LOOPS
  const MathLoops* const all[] = {&baseline::loops, &avx2::loops, &avx512::loops};
#else
  const MathLoops* const all[] = {&baseline::loops};
#endif
  return *all[index];
}

}  // namespace lockstep::kernels::test
