#include "comm/tcp/mesh.h"

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/net/frame.h"
#include "comm/store/server.h"
#include "kernels/base/error.h"
#include "kernels/base/host.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/nodes.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

TEST_CASE("the rank that was waited for counts as absent even when it comes just then", "[comm]") {
  const Credentials credentials{.run_id = fresh_run_id(), .secret = "secret"};
  StoreServer server("127.0.0.1", {0}, credentials);
  const Deadline deadline = Deadline::in(Seconds(5));
  StoreClient store = StoreClient::connect("127.0.0.1", {server.port()}, credentials, deadline);
  const auto key_of = [](int rank) { return fmt::format("here/{}", rank); };
  for (const int rank : {0, 1, 3}) store.set(key_of(rank), "", deadline);
  CHECK(absent_ranks(store, 1, 2, key_of) == std::vector{1});
  CHECK(absent_ranks(store, 1, 5, key_of) == std::vector{1, 2, 4});
}

TEST_CASE("the peer exchange names all missing ranks", "[comm]") {
  const Credentials credentials{.run_id = fresh_run_id(), .secret = "secret"};
  StoreServer server("127.0.0.1", {0}, credentials);
  const auto connect = [&] {
    return StoreClient::connect("127.0.0.1", {server.port()}, credentials, Deadline::in(Seconds(5)));
  };
  const auto errors = run_threads(2, [&](int rank) {
    StoreClient store = connect();
    exchange_peer_info(store, 2 * rank, 4, {}, Deadline::in(Seconds(0.5)));  // ranks 0 and 2
  });
  const std::string reason = fmt::format(
      "ranks 1, 3 of 4 did not join the rendezvous in time at 127.0.0.1:{}, which other hosts cannot reach: "
      "were all nodes started with that address of rank 0?",
      server.port());
  CHECK(errors == std::vector<std::string>(2, reason));
}

TEST_CASE("a rank that has another secret is why it is missing, on all ranks that wait for it", "[comm]") {
  const Credentials credentials{.run_id = fresh_run_id(), .secret = "secret"};
  StoreServer server("127.0.0.1", {0}, credentials);
  const auto errors = run_threads(3, [&](int rank) {
    Credentials own = credentials;
    if (rank == 2) own.secret = "another";
    StoreClient store =
        StoreClient::connect("127.0.0.1", {server.port()}, own, Deadline::in(Seconds(rank == 2 ? 0.3 : 5)));
    exchange_peer_info(store, rank, 3, {}, Deadline::in(Seconds(0.8)));
  });
  CHECK_THAT(errors[2], tests::contains("its secret is another"));
  for (const int rank : {0, 1}) {
    const std::string& error = errors[static_cast<std::size_t>(rank)];
    CHECK_THAT(error,
               tests::contains(fmt::format("rank 2 of 3 did not join the rendezvous in time at 127.0.0.1:{}, "
                                           "which turned away a process of this run at 127.0.0.1:",
                                           server.port())));
    CHECK_THAT(error, tests::contains(": its secret is another: give the same --token-file or "
                                      "LOCKSTEP_TOKEN on all nodes"));
  }
}

TEST_CASE("who waits for a rank still names it when the store is lost", "[comm]") {
  const Credentials credentials{.run_id = fresh_run_id(), .secret = "secret"};
  auto server = std::make_unique<StoreServer>("127.0.0.1", std::vector{0}, credentials);
  const Deadline deadline = Deadline::in(Seconds(5));
  const auto connect = [&] {
    return StoreClient::connect("127.0.0.1", {server->port()}, credentials, deadline);
  };
  StoreClient waits = connect();
  StoreClient sees = connect();
  const auto errors = run_threads(2, [&](int thread) {
    if (thread == 0) return void(exchange_peer_info(waits, 0, 2, {}, deadline));
    sees.wait("peer/0", deadline);
    server.reset();
  });
  CHECK_THAT(errors[0], tests::contains("of 2 had not joined the rendezvous: the store at 127.0.0.1:"));
}

TEST_CASE("a rank that is lost before all have joined ends the others soon, by its name", "[comm]") {
  struct Order {
    int lost;
    bool all_come;
  };
  const Order order = GENERATE(Order{1, false}, Order{1, true}, Order{2, false});
  CAPTURE(order.lost, order.all_come);
  const int absent = 3 - order.lost;
  const std::vector<int> nodes{0, 1, 2};
  const std::string run_id = fresh_run_id();
  const int port = unused_port();
  const auto rank = [&](int index) {
    return RankProcess([=] { join_nodes(index, nodes, run_id, port, Seconds(30)); });
  };
  RankProcess first = rank(0);
  const RankProcess lost = rank(order.lost);
  std::optional<RankProcess> last;
  StoreClient store = connect_to_store(run_id, port);
  store.wait(fmt::format("peer/{}", order.lost), Deadline::in(Seconds(10)));
  if (order.all_come) {
    lost.signal(SIGSTOP);  // so it makes no data connection
    last.emplace(rank(absent));
    store.wait(fmt::format("peer/{}", absent), Deadline::in(Seconds(10)));
  }
  const auto begin = Clock::now();
  lost.signal(SIGKILL);
  const std::string reason = fmt::format("rank {} (pid {} on {}) was lost before all ranks had joined",
                                         order.lost, lost.pid(), host_name());
  CHECK(first.outcome() == reason);
  if (last) CHECK(last->outcome() == reason);
  CHECK(Clock::now() - begin < Seconds(10));
}

TEST_CASE("a rank that is lost before its node has met ends all soon, by its name", "[comm]") {
  const int who = GENERATE(2, 3);  // its node's leader, and the other
  CAPTURE(who);
  const std::string run_id = fresh_run_id();
  const int port = unused_port();
  const auto rank = [&](int index) {
    return RankProcess([=] { join_nodes(index, {0, 0, 1, 1}, run_id, port, Seconds(30)); });
  };
  RankProcess first = rank(0);
  const RankProcess lost = rank(who);
  RankProcess beside = rank(5 - who);
  StoreClient store = connect_to_store(run_id, port);
  for (const int index : {2, 3}) store.wait(fmt::format("peer/{}", index), Deadline::in(Seconds(10)));
  lost.signal(SIGSTOP);  // so it does not come to its node's rendezvous
  RankProcess last = rank(1);
  store.wait("peer/1", Deadline::in(Seconds(10)));
  const auto begin = Clock::now();
  lost.signal(SIGKILL);
  const std::string reason = fmt::format("rank {} (pid {} on {}) was lost before all ranks had joined", who,
                                         lost.pid(), host_name());
  CHECK(first.outcome() == reason);
  CHECK(last.outcome() == reason);
  CHECK(beside.outcome() == reason);
  CHECK(Clock::now() - begin < Seconds(10));
}

TEST_CASE("who gives up before all have joined tells the others why", "[comm]") {
  const int gives_up = GENERATE(0, 1);
  CAPTURE(gives_up);
  const std::string run_id = fresh_run_id();
  const int port = unused_port();
  const auto begin = Clock::now();
  const auto errors = run_threads(2, [&](int rank) {
    join_nodes(rank, {0, 1, 2}, run_id, port, Seconds(rank == gives_up ? 2 : 30));
  });
  const std::string reason = fmt::format(
      "rank 2 of 3 did not join the rendezvous in time at 127.0.0.1:{}, which other hosts cannot reach: were "
      "all nodes started with that address of rank 0?",
      port);
  CHECK(errors == std::vector<std::string>(2, reason));
  CHECK(Clock::now() - begin < Seconds(12));
}

TEST_CASE("why a start has failed is read also when the store is gone", "[comm]") {
  const Credentials credentials{.run_id = fresh_run_id(), .secret = "secret"};
  auto server = std::make_unique<StoreServer>("127.0.0.1", std::vector{0}, credentials);
  const Deadline deadline = Deadline::in(Seconds(5));
  const auto connect = [&] {
    return StoreClient::connect("127.0.0.1", {server->port()}, credentials, deadline);
  };
  StoreClient first = connect();
  StoreClient late = connect();
  MeetingWatch tells(first, 1, 3, deadline);
  MeetingWatch reads(late, 2, 3, deadline);
  CHECK_FALSE(reads.failure());
  CHECK(tells.tell("rank 1: no memory") == "rank 1: no memory");
  server.reset();
  SECTION("at a look") {
    CHECK(reads.failure() == "rank 1: no memory");
  }
  SECTION("by who has noticed the end of the store first") {
    CHECK_THROWS_AS(late.wait("peer/2", deadline), CommError);
    CHECK(reads.tell("the store closed the connection") == "rank 1: no memory");
  }
}

TEST_CASE("a rank whose first process has left does not take its place in the exchange", "[comm]") {
  const Credentials credentials{.run_id = fresh_run_id(), .secret = "secret"};
  StoreServer server("127.0.0.1", {0}, credentials);
  const Deadline deadline = Deadline::in(Seconds(5));
  StoreClient store = StoreClient::connect("127.0.0.1", {server.port()}, credentials, deadline);
  CHECK(exchange_peer_info(store, 0, 1, {.host = "first", .pid = 7}, deadline).size() == 1);
  CHECK_THROWS_WITH(exchange_peer_info(store, 0, 1, {.host = "second", .pid = 8}, deadline),
                    tests::contains("rank 0 (pid 7 on first) was in this run"));
  CHECK(exchange_peer_info(store, 1, 2, {}, deadline).front().host == "first");
}

TEST_CASE("peer info comes back as it was sent; what lacks a field or has more is refused", "[comm]") {
  const PeerInfo info{.node = "boot", .host = "gpu07", .pid = 123, .address = "fe80::1", .port = 4000};
  const std::string text = encode(info);
  const PeerInfo back = decode_peer_info(text, 3);
  CHECK(back.node == "boot");
  CHECK(name_of(3, back) == "rank 3 (pid 123 on gpu07)");
  CHECK(back.address == "fe80::1");
  CHECK(back.port == 4000);
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    CHECK_THROWS_AS(decode_peer_info(text.substr(0, bytes), 3), CommError);
  }
  CHECK_THROWS_AS(decode_peer_info(text + "x", 3), CommError);
  // Texts that are longer than what follows, and then the numbers.
  CHECK_THROWS_AS(decode_peer_info(std::string(16, '\xff'), 3), CommError);
}
