// The collectives over arenas between ranks of one node, in shared memory.
#include "tests/support/catch.h"
#include "tests/unit/comm/conformance.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

TEST_CASE("in shared memory", "[comm]") {
  const int size = GENERATE(1, 2, 3, 4, 5);
  CAPTURE(size);
  const auto errors = run_thread_ranks(size, {.timeout = Seconds(60)}, [](Communicator& group) {
    NoStream stream;
    check_conformance(host_backend(group, stream));
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
}
