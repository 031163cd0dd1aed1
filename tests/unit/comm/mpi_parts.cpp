// What of comm/mpi and comm/no_mpi needs no MPI.
#include "comm/mpi/library.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"

namespace lockstep::comm {
namespace {

TEST_CASE("a build without MPI says how to get it", "[mpi]") {
  const std::string hint = "configure with -DLOCKSTEP_MPI=ON";
  CHECK_THROWS_AS(make_mpi_communicator(World{}, CommOptions{}), UsageError);
  CHECK_THROWS_WITH(make_mpi_communicator(World{}, CommOptions{}), tests::contains(hint));
  CHECK_THROWS_WITH(open_mpi_rendezvous(World{}), tests::contains(hint));
  CHECK_THAT(std::string(mpi_in_this_build()), tests::contains(hint));
}

}  // namespace
}  // namespace lockstep::comm
