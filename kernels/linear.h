#pragma once

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "kernels/matmul_precision.h"

namespace lockstep::kernels {

/// y = x w^T + b. x: (N, I) or (N, C, H, W) with I = C*H*W, which needs no flattened copy; w: (O, I), or
/// (O, C, H, W) when x has four dimensions; b: (O); y: (N, O). f32.

/// inputs x, w, [b]; outputs y. With `relu`: y = max(y, 0).
struct LinearForward {
  bool bias = true;
  bool relu = false;
  MatmulPrecision precision = MatmulPrecision::highest;
};

/// inputs dy, w; outputs dx.
struct LinearBackwardData {
  MatmulPrecision precision = MatmulPrecision::highest;
};

/// inputs x, dy; outputs dw, [db].
struct LinearBackwardWeights {
  bool bias = true;
  MatmulPrecision precision = MatmulPrecision::highest;
};

void choose_layouts(Cpu, const LinearForward&, KernelIo& io);
void choose_layouts(Cpu, const LinearBackwardData&, KernelIo& io);
void choose_layouts(Cpu, const LinearBackwardWeights&, KernelIo& io);
KernelPtr prepare(Cpu, const LinearForward&, const KernelIo& io);
KernelPtr prepare(Cpu, const LinearBackwardData&, const KernelIo& io);
KernelPtr prepare(Cpu, const LinearBackwardWeights&, const KernelIo& io);

void choose_layouts(Cuda, const LinearForward&, KernelIo& io);
void choose_layouts(Cuda, const LinearBackwardData&, KernelIo& io);
void choose_layouts(Cuda, const LinearBackwardWeights&, KernelIo& io);
KernelPtr prepare(Cuda, const LinearForward&, const KernelIo& io);
KernelPtr prepare(Cuda, const LinearBackwardData&, const KernelIo& io);
KernelPtr prepare(Cuda, const LinearBackwardWeights&, const KernelIo& io);

}  // namespace lockstep::kernels
