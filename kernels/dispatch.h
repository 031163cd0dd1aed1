#pragma once

#include "kernels/device.h"
#include "kernels/spec.h"

namespace lockstep::kernels {

/// Where a kernel's description meets a device: `prepare(device, Conv2dForward{...}, io)`.
template <class Spec>
KernelPtr prepare(const Device& device, const Spec& spec, const KernelIo& io) {
  return device.prepare(spec, io);
}

template <class Spec>
void choose_layouts(const Device& device, const Spec& spec, KernelIo& io) {
  device.choose_layouts(spec, io);
}

template <class Spec>
std::vector<ConvAlgorithm> algorithms(const Device& device, const Spec& spec, const KernelIo& io) {
  return device.algorithms(spec, io);
}

}  // namespace lockstep::kernels
