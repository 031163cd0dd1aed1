// A rank that meets a start of its run which is not the one to join.
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/start.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/slowness.h"
#include "tests/support/unused_port.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;
using tests::contains;

namespace {

Deadline soon() {
  return Deadline::in(Seconds(10));
}

/// For what ends no sooner.
Deadline shortly() {
  return Deadline::in(Seconds(0.7 * tests::slowness));
}

/// Rank 0 on a node of its own, ranks 1 and 2 on the other, whose launch began at `start_ns`.
World world_of(int rank, std::int64_t start_ns, const std::string& run_id) {
  World world = local_world(rank, 3, run_id);
  world.local_size = rank == 0 ? 1 : 2;
  world.local_rank = rank == 0 ? 0 : rank - 1;
  world.node_rank = rank == 0 ? 0 : 1;
  world.node_count = 2;
  world.start_ns = start_ns;
  world.source = "launch";
  return world;
}

Rendezvous join(int rank, std::int64_t start_ns, const std::string& run_id, Deadline deadline = soon()) {
  CommOptions options;
  options.insecure = true;
  return open_rendezvous(world_of(rank, start_ns, run_id), options, deadline);
}

StoreClient connect_to(const Rendezvous& met) {
  return StoreClient::connect(met.address, {met.port}, met.credentials, soon());
}

std::string key_of_peer(int rank) {
  return peers_key + std::to_string(rank);
}

}  // namespace

TEST_CASE("a rank takes no place in a start that has lost it, and says so at its deadline", "[rendezvous]") {
  const std::string run_id = fresh_run_id();
  Rendezvous met = join(0, 1, run_id);
  const int rank = GENERATE(1, 2);
  met.store.set(key_of_peer(rank), "where it was", soon());
  const std::string message = tests::message_of<CommError>([&] { join(rank, 2, run_id, shortly()); });
  CHECK_THAT(message, contains("it is of a start that rank " + std::to_string(rank) + " has left") &&
                          contains("start all nodes again"));
  CHECK_FALSE(met.store.get(key_of_place(rank), soon()));
}

TEST_CASE("a rank that runs already is refused while its start goes on, not once that has failed",
          "[rendezvous]") {
  const std::string run_id = fresh_run_id();
  Rendezvous met = join(0, 1, run_id);
  StoreClient first = connect_to(met);
  CHECK_FALSE(first.claim(key_of_place(1), "rank 1 (pid 5 on node1)", soon()));
  first.set(key_of_peer(1), "where it is", soon());
  CHECK_THAT(tests::message_of<UsageError>([&] { join(1, 2, run_id); }),
             contains("runs already: rank 1 (pid 5 on node1)"));
  met.store.set(abort_key, "rank 2 was lost", soon());
  const std::string message = tests::message_of<CommError>([&] { join(1, 2, run_id, shortly()); });
  CHECK_THAT(message, contains("it is of a start that has failed"));
}

TEST_CASE("a rank of a node that counts fewer ranks is told so though its number is taken, and so are all",
          "[rendezvous]") {
  const std::string run_id = fresh_run_id();
  Rendezvous met = join(0, 1, run_id);
  StoreClient first = connect_to(met);
  CHECK_FALSE(first.claim(key_of_place(1), "rank 1 (pid 5 on node1)", soon()));
  first.set(key_of_peer(1), "where it is", soon());
  World fewer = world_of(1, 2, run_id);
  fewer.size = 2;
  fewer.local_size = 1;
  CommOptions options;
  options.insecure = true;
  const std::string message = tests::message_of<UsageError>([&] { open_rendezvous(fewer, options, soon()); });
  CHECK_THAT(message, contains("rank 1 counts 2 ranks, rank 0 counts 3: start all nodes with"));
  CHECK(met.store.get(refusal_key, soon()) == message);
}

TEST_CASE("a rank takes no place in a start that failed before it came", "[rendezvous]") {
  const std::string run_id = fresh_run_id();
  Rendezvous met = join(0, 1, run_id);
  met.store.set(abort_key, "rank 2 was lost", soon());
  const std::string message = tests::message_of<CommError>([&] { join(1, 2, run_id, shortly()); });
  CHECK_THAT(message, contains("it is of a start that has failed"));
  CHECK_FALSE(met.store.get(key_of_place(1), soon()));
}

TEST_CASE("the ranks of a launch do not take what is left of the node's last launch for another one",
          "[rendezvous]") {
  const std::string run_id = fresh_run_id();
  Rendezvous met = join(0, 1, run_id);
  { const Rendezvous left = join(1, 2, run_id); }
  while (met.store.get(key_of_place(1), soon())) {
  }
  CHECK(tests::message_of<CommError>([&] { join(2, 3, run_id, shortly()); }) ==
        "rank 1 did not join the rendezvous in time");
  const auto errors = run_threads(2, [&](int thread) {
    Rendezvous joined = join(thread + 1, 3, run_id);
    joined.store.set("joined/" + std::to_string(thread), "", soon());
    joined.store.wait("joined/" + std::to_string(1 - thread), soon());
    if (joined.incarnation != met.incarnation) throw std::runtime_error("another start");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("a search goes on from a store that is not the one, and from one that is lost meanwhile",
          "[store]") {
  const Credentials credentials{.run_id = fresh_run_id(), .secret = "the secret of the test"};
  const int port = tests::unused_port();
  auto server = std::make_unique<StoreServer>("127.0.0.1", std::vector{port}, credentials);
  int visits = 0;
  const auto inspect = [&](StoreClient& store) -> std::optional<std::string> {
    ++visits;
    if (visits == 1) return "it is not the one";
    if (visits == 3) return std::nullopt;
    server.reset();
    server = std::make_unique<StoreServer>("127.0.0.1", std::vector{port}, credentials);
    return store.get("key", soon());  // of the store that is gone
  };
  StoreClient found = StoreClient::connect("127.0.0.1", {port}, credentials, soon(), inspect);
  CHECK(visits == 3);
  found.set("key", "value", soon());
  CHECK(found.get("key", soon()) == "value");
}

TEST_CASE("whoever waits for the end of a store notices it", "[store]") {
  const Credentials credentials{.run_id = fresh_run_id(), .secret = "the secret of the test"};
  auto server = std::make_unique<StoreServer>("127.0.0.1", std::vector{0}, credentials);
  StoreClient client = StoreClient::connect("127.0.0.1", {server->port()}, credentials, soon());
  client.wait_for_end(Deadline::in(Seconds(0.05)));
  client.set("key", "value", soon());  // the connection is still good
  server.reset();
  const Deadline end = soon();
  client.wait_for_end(end);
  CHECK_FALSE(end.passed());
}
