#pragma once

/// CUDA C++ for the host's compiler: include it first in a kernel's source, in place of <cuda_runtime.h>.
#include "tests/simgpu/language/keywords.h"

#include "tests/simgpu/language/atomics.h"
#include "tests/simgpu/language/barriers.h"
#include "tests/simgpu/language/bits.h"
#include "tests/simgpu/language/cached_access.h"
#include "tests/simgpu/language/half_math.h"
#include "tests/simgpu/language/index.h"
#include "tests/simgpu/language/runtime_templates.h"
#include "tests/simgpu/language/scalar_math.h"
#include "tests/simgpu/language/shared.h"
#include "tests/simgpu/language/tensor_cores.h"
#include "tests/simgpu/language/vectors.h"
#include "tests/simgpu/language/warps.h"
#include "tests/simgpu/launch.h"
