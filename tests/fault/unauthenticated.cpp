// Unauthenticated connections to the store while the ranks of a run, processes of their own, use it.
#include <poll.h>

#include <algorithm>
#include <thread>

#include "comm/net/handshake.h"
#include "comm/net/tcp.h"
#include "comm/rendezvous/rendezvous.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

constexpr int turns = 500;

Deadline soon() {
  return Deadline::in(Seconds(20));
}

World world_of(int rank, const std::string& run_id) {
  World world = local_world(0, 1, run_id);
  world.rank = world.node_rank = rank;
  world.size = world.node_count = 2;
  return world;
}

/// Both ranks count in turn, so either one notices when the store stops serving the other.
void take_turns(StoreClient& store, int rank) {
  for (int turn = rank; turn < turns; turn += 2) {
    store.set("turn " + std::to_string(turn), "taken", soon());
    store.wait("turn " + std::to_string(turn ^ 1), soon());
  }
}

/// What a client with these credentials says first.
std::string first_message(const Credentials& credentials) {
  const TlsContext context(credentials);
  const UniqueFd listener = listen_tcp("127.0.0.1", 0);
  std::string obstacle;
  const UniqueFd client = connect_tcp("127.0.0.1", local_port(listener.get()), soon(), obstacle);
  TlsStream(context, TlsStream::Role::client, client.get()).handshake();
  REQUIRE(wait_for_socket(listener.get(), POLLIN, soon()));
  const UniqueFd server = accept_tcp(listener.get());
  REQUIRE(wait_for_socket(server.get(), POLLIN, soon()));
  std::string said;
  receive_some(server.get(), said);
  return said;
}

/// All that the store sends in answer, until it closes or half a second has passed.
std::string answer_to(int port, std::string_view bytes) {
  std::string obstacle;
  const UniqueFd socket = connect_tcp("127.0.0.1", port, soon(), obstacle);
  INFO(obstacle);
  CHECK(socket);
  std::string answer;
  while (!bytes.empty() && send_some(socket.get(), bytes) == Transfer::some) {
  }
  while (wait_for_socket(socket.get(), POLLIN, Deadline::in(Seconds(0.5)))) {
    if (receive_some(socket.get(), answer) == Transfer::closed) break;
  }
  return answer;
}

}  // namespace

TEST_CASE("unauthenticated connections get no byte of state and the run goes on", "[fault]") {
  const tests::TemporaryFolder folder;
  CommOptions options;
  options.run_dir = folder / "run";
  const std::string run_id = fresh_run_id();
  RankProcess other([&] {
    Rendezvous met = open_rendezvous(world_of(1, run_id), options, soon());
    take_turns(met.store, 1);
    met.store.wait("attack is over", soon());
  });
  Rendezvous met = open_rendezvous(world_of(0, run_id), options, soon());
  met.store.set("state", "precious", soon());

  std::vector<UniqueFd> silent;
  std::string obstacle;
  for (int i = 0; i < 100; ++i) silent.push_back(connect_tcp("127.0.0.1", met.port, soon(), obstacle));
  INFO(obstacle);
  CHECK(std::ranges::all_of(silent, [](const UniqueFd& one) { return static_cast<bool>(one); }));

  const std::string get = encode({Frame::Type::get, FieldWriter().text("state").number(0).take()});
  const std::string hello = first_message({run_id, "guessed"});
  std::thread run([&] { take_turns(met.store, 0); });
  std::string answers;
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100000, '\xff'), get,
                                   hello, hello + get, hello.substr(0, 20)}) {
    answers += answer_to(met.port, bytes);
  }
  Obstacle guess;
  CHECK_FALSE(connect_proved("127.0.0.1", met.port, TlsContext({run_id, "guessed"}), {.purpose = "store:"},
                             soon(), guess));
  run.join();
  CHECK_THAT(guess.text, tests::contains("--token-file"));
  CHECK(answers.find("precious") == std::string::npos);
  CHECK(answers.find(met.credentials.secret) == std::string::npos);

  met.store.set("attack is over", "yes", soon());
  CHECK(other.outcome().empty());
}
