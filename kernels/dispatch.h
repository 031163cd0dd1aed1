#pragma once

#include "kernels/device.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {

/// The one place where a kernel's description meets a device: `prepare(device, Conv2dForward{...}, io)` calls
/// the backend's overload, which argument-dependent lookup finds in the header of that kernel.
template <class Spec>
KernelPtr prepare(const Device&, const Spec& spec, const KernelIo& io) {
  return prepare(Cpu{}, spec, io);
}

template <class Spec>
void choose_layouts(const Device&, const Spec& spec, KernelIo& io) {
  choose_layouts(Cpu{}, spec, io);
}

template <class Spec>
auto algorithms(const Device&, const Spec& spec, const KernelIo& io) {
  return algorithms(Cpu{}, spec, io);
}

}  // namespace lockstep::kernels
