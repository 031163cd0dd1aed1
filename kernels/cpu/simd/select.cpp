#include "kernels/cpu/simd/simd.h"

#if LOCKSTEP_X86_SIMD
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#include "kernels/panel_product.h"
#include "kernels/spec.h"
#include "kernels/tile_attention.h"
#include "kernels/tile_product.h"
#include "kernels/winograd_conv2d.h"

namespace lockstep::kernels::simd {

#define LOCKSTEP_SIMD_RUN(Op) \
  namespace baseline {        \
  Op::Simd run;               \
  }                           \
  namespace avx2 {            \
  Op::Simd run;               \
  }                           \
  namespace avx512 {          \
  Op::Simd run;               \
  }
#define LOCKSTEP_SIMD_BF16_RUN(Op) \
  LOCKSTEP_SIMD_RUN(Op)            \
  namespace avx512_bf16 {          \
  Op::Simd run;                    \
  }
#define LOCKSTEP_SIMD_OP(Op, header) LOCKSTEP_SIMD_RUN(Op)
#define LOCKSTEP_SIMD_BF16_OP(Op, header) LOCKSTEP_SIMD_BF16_RUN(Op)
#include "kernels/ops.def"
#define LOCKSTEP_SIMD_OP(Op, header) LOCKSTEP_SIMD_RUN(Op)
#define LOCKSTEP_SIMD_BF16_OP(Op, header) LOCKSTEP_SIMD_BF16_RUN(Op)
#define LOCKSTEP_SIMD_TILE_OP(Op, header) \
  LOCKSTEP_SIMD_RUN(Op)                   \
  namespace avx512_amx {                  \
  Op::Simd run;                           \
  }
#include "kernels/cpu/simd/parts.def"
#undef LOCKSTEP_SIMD_RUN
#undef LOCKSTEP_SIMD_BF16_RUN

namespace {

#if LOCKSTEP_X86_SIMD
constexpr std::string_view names[] = {"baseline", "avx2", "avx512", "avx512_bf16", "avx512_amx"};

/// For AVX512_BF16; as for AVX-512 if that is all that it is compiled for.
template <class Op>
constexpr typename Op::Simd* for_bf16 = avx512::run;
#define LOCKSTEP_SIMD_OP(Op, header)
#define LOCKSTEP_SIMD_BF16_OP(Op, header) \
  template <>                             \
  constexpr Op::Simd* for_bf16<Op> = avx512_bf16::run;
#include "kernels/ops.def"
#define LOCKSTEP_SIMD_OP(Op, header)
#define LOCKSTEP_SIMD_BF16_OP(Op, header) \
  template <>                             \
  constexpr Op::Simd* for_bf16<Op> = avx512_bf16::run;
#include "kernels/cpu/simd/parts.def"

/// For AMX, likewise.
template <class Op>
constexpr typename Op::Simd* for_tiles = for_bf16<Op>;
#define LOCKSTEP_SIMD_OP(Op, header)
#define LOCKSTEP_SIMD_TILE_OP(Op, header) \
  template <>                             \
  constexpr Op::Simd* for_tiles<Op> = avx512_amx::run;
#include "kernels/cpu/simd/parts.def"

template <class Op>
constexpr typename Op::Simd* kernels[] = {baseline::run, avx2::run, avx512::run, for_bf16<Op>, for_tiles<Op>};

/// Older compilers have no names for these features (Intel's manual, CPUID, leaf 7).
bool processor_has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned bf16 = 1U << 22, tile = 1U << 24;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & bf16) != 0 && (d & tile) != 0;
}

/// A process asks Linux for the registers of AMX before it may use them.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long tile_data = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

std::size_t usable() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (!avx512) return 2;
  if (!__builtin_cpu_supports("avx512bf16")) return 3;
  return processor_has_amx() && may_use_tiles() ? 5 : 4;
}
#else
constexpr std::string_view names[] = {"baseline"};

template <class Op>
constexpr typename Op::Simd* kernels[] = {baseline::run};

std::size_t usable() {
  return 1;
}
#endif

}  // namespace

std::span<const std::string_view> instruction_sets() {
  static const std::size_t count = usable();
  return std::span(names).first(count);
}

bool has_amx() {
  return instruction_sets().back() == "avx512_amx";
}

template <class Op>
typename Op::Simd* kernel(std::size_t index) {
  return kernels<Op>[index];
}

#define LOCKSTEP_SIMD_OP(Op, header) template Op::Simd* kernel<Op>(std::size_t);
#include "kernels/ops.def"
#define LOCKSTEP_SIMD_OP(Op, header) template Op::Simd* kernel<Op>(std::size_t);
#include "kernels/cpu/simd/parts.def"

}  // namespace lockstep::kernels::simd
