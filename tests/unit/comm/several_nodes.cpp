#include <fmt/format.h>

#include "comm/tcp/tcp_communicator.h"
#include "tests/unit/comm/nodes.h"

namespace lockstep::comm::testing {
namespace {

const std::string secret(64, 'a');

/// Rank 0's store, or a connection to it, as a rendezvous gives it.
Rendezvous meet_at(int port, int rank, const std::string& run_id, Seconds timeout) {
  const Credentials credentials{.run_id = run_id, .secret = secret};
  std::unique_ptr<StoreServer> server;
  if (rank == 0) server = std::make_unique<StoreServer>("127.0.0.1", std::vector{port}, credentials);
  const Deadline deadline = Deadline::in(timeout);
  StoreClient store = StoreClient::connect("127.0.0.1", {port}, credentials, deadline);
  store.claim(fmt::format("rank/{}", rank), fmt::format("rank {}", rank), deadline);
  return {.meeting_file = nullptr,
          .server = std::move(server),
          .address = "127.0.0.1",
          .port = port,
          .store = std::move(store),
          .credentials = credentials,
          .incarnation = 1,
          .own_address = "127.0.0.1",
          .keep_alive = nullptr};
}

World world_of(int rank, int size, const std::string& run_id) {
  World world = local_world(rank, size, run_id);
  world.local_size = 1;
  return world;
}

}  // namespace

std::unique_ptr<Communicator> join_nodes(int rank, const std::vector<int>& nodes, const std::string& run_id,
                                         int port, Seconds timeout) {
  const CommOptions options{.timeout = timeout,
                            .node = fmt::format("node {}", nodes[static_cast<std::size_t>(rank)])};
  return std::make_unique<TcpCommunicator>(world_of(rank, static_cast<int>(nodes.size()), run_id), options,
                                           meet_at(port, rank, run_id, timeout), Deadline::in(timeout));
}

StoreClient connect_to_store(const std::string& run_id, int port) {
  return StoreClient::connect("127.0.0.1", {port}, {.run_id = run_id, .secret = secret},
                              Deadline::in(Seconds(10)));
}

std::vector<std::string> run_nodes(const std::vector<int>& nodes, Seconds timeout,
                                   const std::function<void(Communicator&)>& body) {
  const std::string run_id = fresh_run_id();
  const int port = unused_port();
  return run_threads(static_cast<int>(nodes.size()), [&](int rank) {
    const auto group = join_nodes(rank, nodes, run_id, port, timeout);
    body(*group);
  });
}

}  // namespace lockstep::comm::testing
