#pragma once

#include "kernels/base/export.h"
#include "kernels/device.h"

namespace lockstep::kernels {

/// Where an op's description meets a device, for every op of ops.def:
/// `kernel_for(device, Conv2d{...}, io)`. UsageError naming op and operand when the tensors do not fit it.
template <class Op>
LOCKSTEP_API KernelPtr kernel_for(const Device& device, const Op& op, const KernelIo& io);

/// What plans and messages call the ops of ours: those of ops.def and pointwise.def, and the views.
std::vector<std::string> op_names();

/// On return every tensor has the layout that the kernel takes, whatever it had; none stands for row-major.
/// By the op's rule, or by the device's kernel, which leaves a parameter as it lies where it can: of a value
/// that lies otherwise the layout pass makes a reordered copy, for each step anew.
template <class Op>
LOCKSTEP_API void choose_layouts(const Device& device, const Op& op, KernelIo& io);

/// The algorithms that the device offers for these tensors, best guess first.
template <class Op>
LOCKSTEP_API std::vector<Algorithm> algorithms(const Device& device, const Op& op, const KernelIo& io);

}  // namespace lockstep::kernels
