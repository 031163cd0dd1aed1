#pragma once

#include "kernels/cuda/portability.h"

namespace lockstep::kernels {

/// Elements side by side, loaded at once: 16 bytes a thread for four lanes.
template <int lanes>
struct alignas(lanes * sizeof(float)) Floats {
  float at[lanes];

  __device__ static Floats all(float value) {
    Floats floats;
    for (int lane = 0; lane < lanes; ++lane) floats.at[lane] = value;
    return floats;
  }
};

template <int lanes>
__device__ Floats<lanes> load(const float* from) {
  return *reinterpret_cast<const Floats<lanes>*>(from);
}
template <int lanes>
__device__ void store(float* to, const Floats<lanes>& values) {
  *reinterpret_cast<Floats<lanes>*>(to) = values;
}

}  // namespace lockstep::kernels
