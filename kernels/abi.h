#pragma once

#include <string>

#include "kernels/base/export.h"

namespace lockstep::kernels {

/// What a backend's module takes and gives: every description of ops.def with its fields, the functions of
/// pointwise.def, tensors, memory and streams. A part of the module's border (kernels/base/abi.h).
LOCKSTEP_API std::string abi_border();

}  // namespace lockstep::kernels
