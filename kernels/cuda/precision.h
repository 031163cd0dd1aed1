#pragma once

namespace lockstep::kernels {

/// How the GPU multiplies f32. `tf32` rounds the factors to ten bits of mantissa, for tensor cores; sums are
/// f32.
enum class Precision { ieee, tf32 };

}  // namespace lockstep::kernels
