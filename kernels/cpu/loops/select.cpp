#include "kernels/cpu/loops/loops.h"

#if LOCKSTEP_X86_LOOPS
namespace lockstep::kernels::loops::avx2 {
extern const Loops table;
}
namespace lockstep::kernels::loops::avx512 {
extern const Loops table;
}
#endif
namespace lockstep::kernels::loops::baseline {
extern const Loops table;
}

namespace lockstep::kernels::loops {
namespace {

#if LOCKSTEP_X86_LOOPS
constexpr const Loops* all[] = {&baseline::table, &avx2::table, &avx512::table};

std::size_t usable() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return avx512 ? 3 : 2;
}
#else
constexpr const Loops* all[] = {&baseline::table};

std::size_t usable() {
  return 1;
}
#endif

}  // namespace

std::span<const Loops* const> available() {
  return std::span(all).first(usable());
}

const Loops& best() {
  static const Loops& widest = *available().back();
  return widest;
}

}  // namespace lockstep::kernels::loops
