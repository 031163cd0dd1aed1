#include <fmt/format.h>

#include "comm/communicator.h"
#include "comm/direct/direct_communicator.h"
#include "comm/host/host_communicator.h"
#include "comm/mpi/library.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/solo_communicator.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

bool has_several_nodes(const World& world, const CommOptions& options) {
  return world.local_size < world.size || !options.node.empty();
}

std::unique_ptr<Communicator> join_nodes(const World& world, const CommOptions& options) {
  const Deadline deadline = Deadline::in(options.timeout);
  std::shared_ptr<MpiMeeting> mpi;
  Broadcast by_mpi;
  if (world.source == "openmpi") {
    by_mpi = [&](std::string_view from_rank_0) {
      mpi = open_mpi_meeting(world, deadline.left());
      return mpi->broadcast(from_rank_0);
    };
  }
  Rendezvous rendezvous = open_rendezvous(world, options, deadline, by_mpi);
  rendezvous.keep_alive = mpi;
  return std::make_unique<DirectCommunicator>(world, options, std::move(rendezvous), deadline);
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(const World& world, const CommOptions& options) {
  const bool by_mpi = options.backend == "mpi";
  if (!by_mpi && options.backend != "auto" && options.backend != "host") {
    throw UsageError(
        fmt::format("--backend {}: not in this version, which has auto, host and mpi", options.backend));
  }
  if (world.size == 1) return make_solo_communicator(world);
  if (by_mpi) return make_mpi_communicator(world, options);
  if (has_several_nodes(world, options)) return join_nodes(world, options);
  return std::make_unique<HostCommunicator>(world, options);
}

}  // namespace lockstep::comm
