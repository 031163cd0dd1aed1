// A user of rank 0's host without the secret: takes the first of the run's ports, passes on what the others
// say, and tries to read the store and to change gradients.
#include <unistd.h>

#include <array>
#include <cstring>
#include <latch>
#include <thread>

#include "comm/communicator.h"
#include "comm/make_communicator.h"
#include "comm/net/addresses.h"
#include "comm/net/frame.h"
#include "comm/net/tcp.h"
#include "comm/store/client.h"
#include "comm/store/server.h"
#include "comm/tcp/exchange.h"
#include "comm/tcp/mesh.h"
#include "kernels/base/error.h"
#include "tests/fault/relay.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

const std::string loopback = "127.0.0.1";
const std::string secret(64, 's');
constexpr std::size_t elements = 100'000;

Deadline soon() {
  return Deadline::in(Seconds(20));
}

/// Two nodes of one rank each, as torchrun starts them: MASTER_PORT is not ours.
World world_of(int rank, const std::string& run_id) {
  World world = local_world(0, 1, run_id);
  world.rank = world.node_rank = rank;
  world.size = world.node_count = 2;
  world.master_addr = loopback;
  return world;
}

/// Sums ones; whatever else comes out is an error.
void sum_ones(int rank, const std::string& run_id, const std::filesystem::path& token_file) {
  const auto group = make_communicator(
      world_of(rank, run_id),
      {.timeout = Seconds(20), .token_file = token_file, .node = "node " + std::to_string(rank)});
  const auto arena = group->allocate_arena(DType::f32, elements);
  const auto values = values_of<float>(*arena);
  NoStream stream;
  for (int step = 0; step < 3; ++step) {
    std::ranges::fill(values, 1.0F);
    group->all_reduce({arena.get(), 0, elements}, {}, stream);
    for (const float value : values) {
      if (value != 2.0F) throw std::runtime_error("other gradients: " + std::to_string(value));
    }
  }
}

/// What a rank publishes of its data connections: where it listens, and the port behind it.
const std::string published_address = FieldWriter().text(loopback).take();
constexpr std::size_t port_bytes = 8;

/// Flips a bit of the mantissa, far behind headers and handshakes.
void alter_gradients(std::string& bytes, std::size_t offset, bool) {
  constexpr std::size_t somewhere = 30'002;
  if (offset <= somewhere && somewhere < offset + bytes.size()) bytes[somewhere - offset] ^= 0x40;
}

/// A port of the run that nobody listens on yet, and the one after it.
struct Ports {
  explicit Ports(const World& world)
      : all(store_ports(world)), first(listen_tcp(loopback, all[0])), second(all[1]) {}
  std::vector<int> all;
  UniqueFd first;
  int second;
};

/// A data connection between two ranks of a world, whose bytes may take a detour; what each rank said at the
/// end.
std::vector<std::string> exchange_over_relay(const Relay::Alter& alter) {
  const Credentials credentials{.run_id = fresh_run_id(), .secret = secret};
  const Placement placement({0, 1});
  AuthenticatedListener listener(listen_tcp(loopback, 0), credentials);
  AuthenticatedListener unused(listen_tcp(loopback, 0), credentials);
  const Relay relay(listen_tcp(loopback, 0), listener.port(), alter);
  const std::vector<PeerInfo> peers{{.address = loopback, .port = relay.port()}, {}};
  std::latch both_done(2);
  return run_threads(2, [&](int rank) {
    auto links = connect_peers(placement, rank, peers, DataSecurity{credentials},
                               rank == 0 ? listener : unused, soon());
    NodeRanks node({.ranks = {rank}, .index = 0, .socket_name = credentials.run_id + std::to_string(rank)},
                   Seconds(10), Deadline::in(Seconds(10)));
    TcpExchange exchange(placement, node, links);
    const auto allocation = node.begin_allocation(DType::f32, elements);
    const auto arena = node.allocate_arena(DType::f32, elements);
    const ArenaRange range{arena.get(), 0, elements};
    const auto values = values_of<float>(*arena);
    std::ranges::fill(values, 1.0F);
    const auto call = node.begin(Call::Kind::all_reduce, std::span(&range, 1), {});
    try {
      exchange.all_reduce(std::span(&range, 1));
    } catch (const PeerTrouble&) {
      throw std::runtime_error("the connection broke");
    }
    const bool right = std::ranges::all_of(values, [](float value) { return value == 2.0F; });
    if (!alter) both_done.arrive_and_wait();  // who leaves first breaks the connection
    if (!right) throw std::runtime_error("other gradients");
  });
}

}  // namespace

TEST_CASE("who relays the handshake reads nothing of the store and changes no gradient", "[fault]") {
  const tests::TemporaryFolder folder;
  tests::write_file(folder / "token", secret);
  std::filesystem::permissions(folder / "token", std::filesystem::perms(0600));
  const std::string run_id = fresh_run_id();
  Ports ports(world_of(0, run_id));
  // Forked before there are threads, which might hold a lock at that moment.
  RankProcess rank0([&] { sum_ones(0, run_id, folder / "token"); });
  std::array<int, 2> gate{};
  REQUIRE(pipe(gate.data()) == 0);
  RankProcess rank1([&] {
    char byte = 0;
    if (read(gate[0], &byte, 1) == 1) sum_ones(1, run_id, folder / "token");
  });

  Relay data(listen_tcp(loopback, 0), 0, alter_gradients);
  // Tells rank 1 that rank 0, whose address it asks for first, takes its data at the relay.
  bool is_diverted = false;
  const auto divert = [&](std::string& bytes, std::size_t, bool to_client) {
    if (!to_client || is_diverted) return;
    const std::size_t found = bytes.find(published_address);
    if (found == std::string::npos) return;
    const std::size_t at = found + published_address.size();
    if (at + port_bytes > bytes.size()) return;
    data.set_target(static_cast<unsigned char>(bytes[at]) | static_cast<unsigned char>(bytes[at + 1]) << 8);
    is_diverted = true;
    bytes.replace(at, port_bytes, FieldWriter().number(data.port()).take());
  };
  const Relay store(std::move(ports.first), ports.second, divert);
  // Rank 1 asks the relay first, when rank 0's store is behind it.
  std::string obstacle;
  while (!connect_tcp(loopback, ports.second, soon(), obstacle)) std::this_thread::yield();
  REQUIRE(write(gate[1], "x", 1) == 1);
  CHECK(rank0.outcome() == "");
  CHECK(rank1.outcome() == "");
  CHECK_FALSE(store.seen().empty());
  CHECK(store.seen().find("peer/0") == std::string::npos);
  CHECK(store.seen().find(published_address) == std::string::npos);
}

TEST_CASE("a byte of the store's that changes on the way ends the connection with the reason", "[fault]") {
  const Credentials credentials{.run_id = fresh_run_id(), .secret = secret};
  StoreServer server(loopback, {0}, credentials);
  std::atomic<bool> flips = false;
  const Relay relay(listen_tcp(loopback, 0), server.port(),
                    [&](std::string& bytes, std::size_t, bool to_client) {
                      if (to_client && flips) bytes.back() ^= 1;
                    });
  StoreClient direct = StoreClient::connect(loopback, {server.port()}, credentials, soon());
  StoreClient relayed = StoreClient::connect(loopback, {relay.port()}, credentials, soon());
  direct.set("learning rate", "0.1", soon());
  CHECK(relayed.get("learning rate", soon()) == "0.1");
  flips = true;
  std::string got;
  const std::string message =
      tests::message_of<CommError>([&] { got = *relayed.get("learning rate", soon()); });
  CHECK(got.empty());
  CHECK_THAT(message, tests::contains("changed on the way"));
  CHECK(direct.get("learning rate", soon()) == "0.1");
}

TEST_CASE("gradients pass a relay unchanged, or not at all", "[fault]") {
  CHECK(exchange_over_relay({}) == std::vector<std::string>(2));
  for (const std::string& error : exchange_over_relay(alter_gradients)) {
    CHECK_THAT(error, tests::contains("the connection broke"));
  }
}
