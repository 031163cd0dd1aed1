#pragma once

// Before any of NVIDIA's headers: they define these only where they are undefined. A static variable of the
// system thread that runs the block is what shared memory is.
#define __shared__ thread_local
// curand's headers include it, and its threadIdx would clash with ours.
#define __DEVICE_LAUNCH_PARAMETERS_H__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define __launch_bounds__(...)
