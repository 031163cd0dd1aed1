// What a build without MPI answers.
#include "comm/mpi/library.h"

#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

[[noreturn]] void refuse() {
  throw UsageError("MPI is not built in: configure with -DLOCKSTEP_MPI=ON");
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const World&, const CommOptions&) {
  refuse();
}

std::unique_ptr<MpiRendezvous> open_mpi_rendezvous(const World&, Seconds) {
  refuse();
}

bool mpi_is_built_in() {
  return false;
}

std::string_view mpi_in_this_build() {
  return "not built in: configure with -DLOCKSTEP_MPI=ON";
}

}  // namespace lockstep::comm
