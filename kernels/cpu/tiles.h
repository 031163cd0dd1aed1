#pragma once

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/simd/simd.h"

namespace lockstep::kernels {

/// Whether bf16 may be multiplied by our own products of tiles (kernels/tile_product.h): the processor has
/// AMX, and the library multiplies by it, too. ONEDNN_MAX_CPU_ISA can forbid it that; what then holds for the
/// library's products holds for ours, which take weights as the library has them for AMX.
inline bool multiplies_by_tiles() {
  return simd::has_amx() && onednn::multiplies_by_amx();
}

}  // namespace lockstep::kernels
