#pragma once

#include <string>

#include "kernels/device.h"

namespace lockstep::kernels {

/// What the speed of the device's kernels depends on beside their code, in a line: the processor's or GPU's
/// model, its instruction set and flags, the number of threads, the libraries' versions.
std::string machine_line(const Device& device);

}  // namespace lockstep::kernels
