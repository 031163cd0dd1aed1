#include "comm/net/handshake.h"

#include <sys/socket.h>

#include <optional>
#include <string>

#include <fmt/format.h>

#include "tests/support/catch.h"
#include "tests/support/socket_pair.h"

using namespace lockstep;
using namespace lockstep::comm;

namespace {

using State = Handshake::State;
using Role = Handshake::Role;

const Credentials of_run{"run", "the secret of the run"};

Deadline soon() {
  return Deadline::in(Seconds(5));
}

/// A client that asks for something, and a server that takes something.
struct Meeting {
  Meeting(const ConnectionRequest& asked, const ConnectionRequest& taken)
      : client(std::move(sockets.client), context, Role::client, asked, soon()),
        server(std::move(sockets.server), context, Role::server, taken, soon()) {}

  void talk() {
    for (int turn = 0; turn < 6; ++turn) {
      if (client.state() == State::pending) client.advance();
      if (server.state() == State::pending) server.advance();
    }
  }

  tests::SocketPair sockets;
  TlsContext context{of_run};
  Handshake client;
  Handshake server;
};

/// A peer that has proved the secret, and then says what it likes.
struct Freely {
  explicit Freely(Role peer_role)
      : peer(context, peer_role, (peer_role == Role::server ? sockets.server : sockets.client).get()),
        own(std::move(peer_role == Role::server ? sockets.client : sockets.server), context,
            peer_role == Role::server ? Role::client : Role::server, {.purpose = "link"}, soon()) {
    auto progress = TlsStream::Progress::wants_input;
    for (int turn = 0; turn < 4; ++turn) {
      own.advance();
      if (progress != TlsStream::Progress::done) progress = peer.handshake();
    }
    REQUIRE(progress == TlsStream::Progress::done);
  }

  void say(const std::string& bytes) {
    std::size_t sent = 0;
    REQUIRE(peer.send_some(std::as_bytes(std::span(bytes)), {}, sent) == Transfer::some);
    own.advance();
  }

  tests::SocketPair sockets;
  TlsContext context{of_run};
  TlsStream peer;
  Handshake own;
};

std::string as_version(std::string frame, int version) {
  frame[4] = static_cast<char>(version);
  return frame;
}

std::string hello(const std::string& purpose) {
  return encode({Frame::Type::hello, FieldWriter().text(purpose).number(1).take()});
}

}  // namespace

TEST_CASE("a client gets what the server has, and what follows is as both want it", "[handshake]") {
  for (const bool encrypted : {true, false}) {
    Meeting meeting({"link 3", encrypted}, {"link", encrypted});
    meeting.talk();
    REQUIRE(meeting.client.state() == State::proved);
    REQUIRE(meeting.server.state() == State::proved);
    CHECK(meeting.server.purpose() == "link 3");
    Channel client = meeting.client.take_channel();
    Channel server = meeting.server.take_channel();
    CHECK(client.is_encrypted() == encrypted);
    std::string_view word = "word";
    REQUIRE(client.send_some(word) == Transfer::some);
    std::string heard;
    CHECK(server.receive_some(heard) == Transfer::some);
    CHECK(heard == "word");
  }
}

TEST_CASE("what does not fit is refused for good, and both sides say why", "[handshake]") {
  struct Row {
    ConnectionRequest asked;
    std::string client_says;
    std::string server_says;
  };
  const std::vector<Row> rows{
      {{"store:", true}, "something else", "does not serve"},
      {{"link 3", false}, "--data-security", "--data-security"},
  };
  for (const Row& row : rows) {
    Meeting meeting(row.asked, {"link", true});
    meeting.talk();
    CHECK(meeting.client.state() == State::refused);
    CHECK(meeting.server.state() == State::refused);
    CHECK(meeting.client.is_refused_by_peer());
    CHECK_THAT(meeting.client.problem(), tests::contains(row.client_says));
    CHECK_THAT(meeting.server.problem(), tests::contains(row.server_says));
  }
}

TEST_CASE("a client that gives up before it has joined was never there", "[handshake]") {
  std::optional<Freely> client(Role::client);
  client->say(hello("link 3"));
  CHECK(client->own.state() == State::pending);
  client->sockets.client.reset();
  client->own.advance();
  CHECK(client->own.state() == State::refused);
  CHECK_FALSE(client->own.is_refused_by_peer());
}

TEST_CASE("another version is named on both sides", "[handshake]") {
  Freely client(Role::client);
  const auto named = [](int other) {
    return fmt::format("it runs Lockstep protocol {}, this is {}: use the same version on all nodes", other,
                       store_protocol_version);
  };
  client.say(as_version(hello("link 3"), 1));
  CHECK(client.own.problem() == named(1));
  Freely server(Role::server);
  server.say(as_version(encode({Frame::Type::refused, "it runs another version"}), 99));
  CHECK(server.own.problem() == named(99));
  CHECK(server.own.is_refused_by_peer());
}

TEST_CASE("a server takes no hello that is malformed, and keeps little of one", "[handshake]") {
  const std::string long_purpose(ConnectionRequest::most_purpose_bytes + 1, 'p');
  for (const std::string& said : {encode({Frame::Type::hello, "garbage"}), hello(long_purpose),
                                  encode({Frame::Type::hello, std::string(most_hello_bytes + 1, 'x')}),
                                  encode({Frame::Type::joined, ""}), std::string("GET / HTTP/1.1\r\n\r\n")}) {
    Freely client(Role::client);
    client.say(said);
    CHECK(client.own.state() == State::refused);
  }
}

TEST_CASE("a refusal is shown without control characters", "[handshake]") {
  Freely server(Role::server);
  server.say(encode({Frame::Type::refused, "no\x1b[2J\nfake line"}));
  CHECK(server.own.problem() == "no?[2J?fake line");
}

TEST_CASE("a handshake ends by its deadline", "[handshake]") {
  tests::SocketPair sockets;
  const TlsContext context(of_run);
  Handshake silent(std::move(sockets.server), context, Role::server, {"link"}, Deadline::in(Seconds(0)));
  silent.advance();
  CHECK(silent.state() == State::refused);
  CHECK(silent.problem() == "no handshake in time");
}
