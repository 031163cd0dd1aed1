#include "comm/make_communicator.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/device_info.h"
#include "comm/mpi/library.h"
#include "comm/nccl/library.h"
#include "comm/net/addresses.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/run_secret.h"
#include "comm/shm/shm_communicator.h"
#include "comm/solo_communicator.h"
#include "comm/staged/staged_communicator.h"
#include "comm/tcp/tcp_communicator.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"

namespace lockstep::comm {
namespace {

std::unique_ptr<Communicator> join_nodes(const World& world, const CommOptions& options) {
  const Deadline deadline = Deadline::in(options.timeout);
  std::shared_ptr<MpiRendezvous> mpi;
  bool calls_mpi = false;
  Broadcast by_mpi;
  if (world.source == "openmpi" && mpi_is_built_in()) {
    by_mpi = [&](std::string_view from_rank_0) {
      calls_mpi = true;
      mpi = open_mpi_rendezvous(world, deadline.left());
      return mpi->broadcast(from_rank_0);
    };
  }
  try {
    Rendezvous rendezvous = open_rendezvous(world, options, deadline, by_mpi);
    rendezvous.keep_alive = mpi;
    return std::make_unique<TcpCommunicator>(world, options, std::move(rendezvous), deadline);
  } catch (const CommError& error) {
    if (!by_mpi || calls_mpi || !deadline.passed()) throw;
    throw CommError(
        fmt::format("{}; ranks without MASTER_ADDR and a secret, which this one has, would wait in MPI_Init: "
                    "give both to all ranks (mpirun -x MASTER_ADDR -x LOCKSTEP_TOKEN), or to none",
                    error.what()));
  }
}

/// NCCL takes the network that the user named, unless its own variable names another; it reads that once.
void tell_nccl_the_network(const std::string& interface) {
  constexpr int keeps_what_there_is = 0;
  if (!interface.empty())
    ::setenv("NCCL_SOCKET_IFNAME", ("=" + device_of_interface(interface)).c_str(), keeps_what_there_is);
}

[[noreturn]] void refuse_nccl_on_cpu() {
  throw UsageError("--backend nccl: it sums on GPUs, and this run computes on the CPU; use --backend host");
}

}  // namespace

bool spans_nodes(const World& world, const std::string& node) {
  return world.local_size < world.size || (world.size > 1 && !node.empty());
}

bool may_use_nccl(std::string_view backend, const kernels::Device& device) {
  return !device.is_cpu() && (backend == "auto" || backend == "nccl");
}

std::unique_ptr<Communicator> make_communicator(const World& world, const CommOptions& options) {
  const bool by_mpi = options.backend == "mpi";
  if (options.backend == "nccl") refuse_nccl_on_cpu();
  if (!by_mpi && options.backend != "auto" && options.backend != "host") {
    throw UsageError(fmt::format("--backend {}: there are auto, nccl, host and mpi", options.backend));
  }
  const bool joins = !by_mpi && spans_nodes(world, options.node);
  // Where nobody asks for the secret its file is read, too: one that is not there is a slip.
  if (!joins && !options.token_file.empty()) given_secret(options, process_environment());
  if (world.size == 1) return std::make_unique<SoloCommunicator>(world);
  if (by_mpi) return make_mpi_communicator(world, options);
  if (joins) return join_nodes(world, options);
  return std::make_unique<ShmCommunicator>(world, options);
}

std::unique_ptr<Communicator> make_communicator(const World& world, const CommOptions& options,
                                                kernels::Device& device) {
  if (device.is_cpu() && world.size == 1) return make_communicator(world, options);
  const bool wants_nccl = options.backend == "nccl";
  CommOptions on_host = options;
  if (wants_nccl) on_host.backend = "host";
  auto group = make_communicator(world, on_host);
  const std::vector<DeviceInfo> devices =
      exchange_device_info(*group, device_info_of(device, options.backend));
  require_one_kind(devices);
  if (!devices.front().is_gpu()) {
    if (wants_nccl) refuse_nccl_on_cpu();
    return group;
  }
  if (!options.gpu_sharing) require_own_gpus(devices);
  // One rank has nothing to sum, so it uses NCCL only when the user chose it.
  if (wants_nccl || (options.backend == "auto" && world.size > 1)) {
    const std::string why_not = why_not_nccl(devices, wants_nccl);
    if (why_not.empty()) {
      tell_nccl_the_network(options.interface);
      return make_nccl_communicator(std::move(group), device, options.timeout);
    }
    if (wants_nccl) {
      throw UsageError(fmt::format("--backend nccl: {}; use --backend host", why_not));
    }
    if (world.rank == 0) log::warn("exchange through host memory, not by NCCL: {}", why_not);
  }
  return std::make_unique<StagedCommunicator>(std::move(group), device);
}

}  // namespace lockstep::comm
