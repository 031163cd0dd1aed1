// The collectives over arenas between ranks of several nodes: TCP between them, shared memory inside.
#include "tests/support/catch.h"
#include "tests/unit/comm/conformance.h"
#include "tests/unit/comm/nodes.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

TEST_CASE("between nodes, wherever the ranks are", "[comm]") {
  const auto nodes =
      GENERATE(std::vector{0}, std::vector{0, 1}, std::vector{0, 0, 1}, std::vector{0, 1, 0},
               std::vector{0, 1, 2}, std::vector{0, 0, 1, 1}, std::vector{0, 1, 1, 0},
               std::vector{0, 0, 0, 1, 1}, std::vector{0, 1, 0, 2, 1}, std::vector{0, 1, 2, 3, 4});
  CAPTURE(nodes);
  const auto errors = run_nodes(nodes, Seconds(60), [](Communicator& group) {
    NoStream stream;
    check_conformance(host_backend(group, stream));
  });
  CHECK(errors == std::vector<std::string>(nodes.size()));
}
