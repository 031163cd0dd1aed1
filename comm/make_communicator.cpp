#include <fmt/format.h>

#include "comm/communicator.h"
#include "comm/host/host_communicator.h"
#include "comm/mpi/library.h"
#include "comm/solo_communicator.h"
#include "kernels/base/error.h"

namespace lockstep::comm {

std::unique_ptr<Communicator> make_communicator(const World& world, const CommOptions& options) {
  const bool by_mpi = options.backend == "mpi";
  if (!by_mpi && options.backend != "auto" && options.backend != "host") {
    throw UsageError(
        fmt::format("--backend {}: not in this version, which has auto, host and mpi", options.backend));
  }
  if (world.size == 1) return make_solo_communicator(world);
  if (by_mpi) return make_mpi_communicator(world, options);
  return std::make_unique<HostCommunicator>(world, options);
}

}  // namespace lockstep::comm
