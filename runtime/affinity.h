#pragma once

#include <string>

#include "comm/bootstrap/bootstrap.h"
#include "comm/world.h"

namespace lockstep::runtime {

/// The CPUs that this process may run on, as the kernel lists them ("0-3,8").
std::string affinity_list();

/// mpirun binds each rank of a small job to one core: compute and communication then take turns on it. One
/// line with the mend when that is so, else "".
std::string binding_advice(const comm::World& world);

}  // namespace lockstep::runtime
