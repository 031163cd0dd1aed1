#pragma once

#include <cstddef>
#include <span>
#include <string_view>

/// SIMD kernels: our own loops, compiled once per instruction set from the same sources: an op's is the
/// overload of `run` for its description, with the type `Op::Simd`. Each works on one thread on the range
/// that it is given; the kernels in kernels/cpu share the work out. Nothing here allocates.
namespace lockstep::kernels::simd {

/// Of the instruction sets that this processor has, narrowest first.
std::span<const std::string_view> instruction_sets();

/// Whether the widest of them is AMX, by whose tiles each LOCKSTEP_SIMD_TILE_OP computes.
bool has_amx();

/// The SIMD kernel of `Op`, for each LOCKSTEP_SIMD_OP of ops.def and parts.def, compiled for instruction set
/// `index`.
template <class Op>
typename Op::Simd* kernel(std::size_t index);

/// For the widest.
template <class Op>
typename Op::Simd* best() {
  return kernel<Op>(instruction_sets().size() - 1);
}

}  // namespace lockstep::kernels::simd
