#pragma once

#include "comm/mpi/module.h"

namespace lockstep::comm {

/// Loads liblockstep_mpi.so, and with it libmpi: from beside the program, the library folder of the
/// installation, or where the system looks. It stays loaded. DeviceError tells what each place answered.
const MpiModule& load_mpi_module();

}  // namespace lockstep::comm
