#pragma once

#include <string>

namespace lockstep::comm {

/// Who this process is among the ranks. Found by find_world.
struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int node_rank = 0;  ///< a guess under openmpi, which does not tell it
  int node_count = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;               ///< 0: none given
  bool master_port_is_ours = false;  ///< our own launch keeps it free for the store
  std::string run_id;                ///< the same on all ranks of a run, different between runs
  std::string source;                ///< where it was found: launch, torchrun, openmpi, pmix, slurm, alone
};

}  // namespace lockstep::comm
