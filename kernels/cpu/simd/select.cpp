#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/table.h"

#if LOCKSTEP_X86_SIMD
namespace lockstep::kernels::simd::avx2 {
extern const Table table;
}
namespace lockstep::kernels::simd::avx512 {
extern const Table table;
}
#endif
namespace lockstep::kernels::simd::baseline {
extern const Table table;
}

namespace lockstep::kernels::simd {
namespace {

#if LOCKSTEP_X86_SIMD
constexpr const Table* all[] = {&baseline::table, &avx2::table, &avx512::table};
constexpr std::string_view names[] = {"baseline", "avx2", "avx512"};

std::size_t usable() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return avx512 ? 3 : 2;
}
#else
constexpr const Table* all[] = {&baseline::table};
constexpr std::string_view names[] = {"baseline"};

std::size_t usable() {
  return 1;
}
#endif

}  // namespace

std::span<const std::string_view> instruction_sets() {
  static const std::size_t count = usable();
  return std::span(names).first(count);
}

template <class Op>
typename Op::Simd* kernel(std::size_t index) {
  return static_cast<const Entry<Op>&>(*all[index]).run;
}

#define LOCKSTEP_SIMD_OP(Op, header) template Op::Simd* kernel<Op>(std::size_t);
#include "kernels/ops.def"

}  // namespace lockstep::kernels::simd
