#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Why a GPU of this compute capability (75 for 7.5) cannot be used; empty when it can.
std::string gpu_problem(int compute_capability);

/// Why a driver for CUDA `driver` cannot serve a program built with CUDA `runtime` (both as CUDA counts:
/// 12040); empty when it can. 0: there is no driver.
std::string driver_problem(int driver, int runtime);

/// The driver's release ("580.95.05") in the text of /proc/driver/nvidia/version; empty when there is none.
std::string driver_release(std::string_view text);

}  // namespace lockstep
