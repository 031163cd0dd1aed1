#pragma once

#include "kernels/device.h"
#include "kernels/dispatch.h"
#include "kernels/step_state.h"

namespace lockstep::shares {

/// Seconds of one launch: of the fastest of a few rounds of launches back to back, which a device with graphs
/// replays as a whole, so that launching costs nothing. f32 tensors hold random numbers, since a GPU draws
/// less power, and so runs faster, on zeros; a tensor of the size of a StepState holds `state`. What fits the
/// GPU's cache stays in it from launch to launch: the bandwidth of small tensors may come out above that of
/// memory.
double seconds_of_launch(kernels::Device& device, const kernels::Kernel& kernel, const kernels::KernelIo& io,
                         const kernels::StepState& state);

/// Bytes of all tensors, each read or written once.
double bytes_of(const kernels::KernelIo& io);

/// No GPU, but the machine in software, whose figures mean nothing.
bool is_simulated(const kernels::Device& device);

}  // namespace lockstep::shares
