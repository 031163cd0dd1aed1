#pragma once

#include <array>

#include "kernels/device.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {

struct Pool2dGeometry {
  std::array<std::int64_t, 2> kernel{2, 2};
  std::array<std::int64_t, 2> stride{2, 2};
  std::array<std::int64_t, 2> padding{0, 0};
};

/// inputs x (N, C, H, W); outputs y (N, C, H', W'). Windows are cut off at the bottom and right (floor mode).
struct MaxPool2dForward {
  Pool2dGeometry geometry;
};

/// inputs x, dy; outputs dx. The first greatest element of a window gets its gradient (PyTorch's rule); found
/// again from x, so that forward keeps no indices. With `relu_mask`, x is the output of a relu and the result
/// is the gradient before it: dx where x > 0, else 0.
struct MaxPool2dBackward {
  Pool2dGeometry geometry;
  bool relu_mask = false;
};

/// Average over each window, padding counted as PyTorch's default does. inputs x; outputs y.
struct AvgPool2dForward {
  Pool2dGeometry geometry;
};

/// inputs dy; outputs dx.
struct AvgPool2dBackward {
  Pool2dGeometry geometry;
};

void choose_layouts(Cpu, const MaxPool2dForward&, KernelIo& io);
void choose_layouts(Cpu, const MaxPool2dBackward&, KernelIo& io);
void choose_layouts(Cpu, const AvgPool2dForward&, KernelIo& io);
void choose_layouts(Cpu, const AvgPool2dBackward&, KernelIo& io);
KernelPtr prepare(Cpu, const MaxPool2dForward&, const KernelIo& io);
KernelPtr prepare(Cpu, const MaxPool2dBackward&, const KernelIo& io);
KernelPtr prepare(Cpu, const AvgPool2dForward&, const KernelIo& io);
KernelPtr prepare(Cpu, const AvgPool2dBackward&, const KernelIo& io);

void choose_layouts(Cuda, const MaxPool2dForward&, KernelIo& io);
void choose_layouts(Cuda, const MaxPool2dBackward&, KernelIo& io);
void choose_layouts(Cuda, const AvgPool2dForward&, KernelIo& io);
void choose_layouts(Cuda, const AvgPool2dBackward&, KernelIo& io);
KernelPtr prepare(Cuda, const MaxPool2dForward&, const KernelIo& io);
KernelPtr prepare(Cuda, const MaxPool2dBackward&, const KernelIo& io);
KernelPtr prepare(Cuda, const AvgPool2dForward&, const KernelIo& io);
KernelPtr prepare(Cuda, const AvgPool2dBackward&, const KernelIo& io);

}  // namespace lockstep::kernels
