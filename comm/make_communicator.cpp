#include <fmt/format.h>

#include "comm/communicator.h"
#include "comm/host/host_communicator.h"
#include "comm/solo_communicator.h"
#include "kernels/base/error.h"

namespace lockstep::comm {

std::unique_ptr<Communicator> make_communicator(const World& world, const CommOptions& options) {
  if (options.backend != "auto" && options.backend != "host") {
    throw UsageError(
        fmt::format("--backend {}: not in this version, which has auto and host", options.backend));
  }
  if (world.size == 1) return make_solo_communicator(world);
  return std::make_unique<HostCommunicator>(world, options);
}

}  // namespace lockstep::comm
