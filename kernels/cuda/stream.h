#pragma once

#include "kernels/cuda/handles.h"
#include "kernels/device.h"

namespace lockstep::kernels {

/// The stream as CUDA knows it. Makes its device the calling thread's, so that what is launched next goes
/// there.
cudaStream_t handle_of(Stream& stream);

}  // namespace lockstep::kernels
