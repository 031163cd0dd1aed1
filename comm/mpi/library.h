#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "comm/communicator.h"
#include "comm/make_communicator.h"

namespace lockstep::comm {

/// `--backend mpi`: Open MPI's collectives over MPI_COMM_WORLD, in place in the arena. libmpi is loaded here
/// and not before. UsageError when this build has no MPI, when nothing that MPI knows started the process
/// (MPI_Init would end it without our message), or when MPI's rank and size are not the World's.
std::unique_ptr<Communicator> make_mpi_communicator(const World& world, const CommOptions& options);

/// MPI for the rendezvous alone: MPI runs from opening to destruction.
class MpiRendezvous {
 public:
  virtual ~MpiRendezvous() = default;
  /// Rank 0's text on every rank; what the others pass is ignored. CommError when it takes longer than
  /// `timeout`.
  virtual std::string broadcast(std::string_view from_rank_0) = 0;
};

/// Errors as of make_mpi_communicator.
std::unique_ptr<MpiRendezvous> open_mpi_rendezvous(const World& world, Seconds timeout = Seconds(600));

bool mpi_is_built_in();

/// For `trainer devices`: "built in" or what to do about it. Loads nothing.
std::string_view mpi_in_this_build();

}  // namespace lockstep::comm
