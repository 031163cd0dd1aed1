#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "comm/world/world.h"
#include "kernels/base/deadline.h"

namespace lockstep::kernels {
class Device;
}

namespace lockstep::comm {

class Communicator;

/// How the ranks of a run find each other and exchange.
struct CommOptions {
  Seconds timeout{600};
  std::string backend = "auto";  ///< auto, nccl, host, mpi
  std::string interface;         ///< device or address that sockets bind to; empty: the one that faces rank 0
  int first_port = 0;            ///< of --port-range; 0: any free port
  int last_port = 0;
  std::filesystem::path token_file;  ///< holds the run's secret; empty: not given
  bool insecure = false;             ///< no secret at all
  bool encrypt_data = true;          ///< between nodes; false: --data-security none
  std::filesystem::path run_dir;     ///< as typed; where nodes that share a disk find address and secret
  std::string node;             ///< LOCKSTEP_NODE: ranks with different names count as on different nodes
  double most_bytes_per_s = 0;  ///< that a data connection between nodes sends; 0: what the network takes
  bool gpu_sharing = false;     ///< several ranks may compute on one GPU
};

/// Whether the ranks of `world` are on several nodes, or count as such since this one has a name (`node`).
bool spans_nodes(const World& world, const std::string& node);

/// Whether ranks that compute on `device` may exchange by NCCL with this --backend, as far as one rank knows.
bool may_use_nccl(std::string_view backend, const kernels::Device& device);

/// Connects to the other ranks of `world` and returns the group. With one rank nothing is opened. Arenas are
/// in host memory. UsageError for an unknown backend, CommError when ranks do not come within the timeout.
std::unique_ptr<Communicator> make_communicator(const World& world, const CommOptions& options);

/// The same for ranks that compute on `device`, which outlives the group: arenas are in its memory. On GPUs
/// `auto` takes nccl when each rank has one of its own and NCCL is there, else host; the ranks agree.
/// UsageError when ranks share a GPU without `gpu_sharing`, DeviceError when some have none.
std::unique_ptr<Communicator> make_communicator(const World& world, const CommOptions& options,
                                                kernels::Device& device);

}  // namespace lockstep::comm
