#include "comm/net/handshake.h"

#include <functional>

#include "tests/support/catch.h"

using namespace lockstep;
using namespace lockstep::comm;

namespace {

using State = HandshakeProtocol::State;

const Credentials of_run{"run", "secret"};

/// Lets both sides talk until neither has more to say; `step` bytes at a time. What the client said.
std::string talk(HandshakeProtocol& client, HandshakeProtocol& server, std::size_t step = 4096) {
  std::string said;
  const auto give = [step](const std::string& bytes, HandshakeProtocol& to) {
    for (std::size_t i = 0; i < bytes.size(); i += step) to.receive(bytes.substr(i, step));
  };
  while (true) {
    const std::string from_client = client.take_outgoing();
    give(from_client, server);
    said += from_client;
    const std::string from_server = server.take_outgoing();
    give(from_server, client);
    if (from_client.empty() && from_server.empty()) return said;
  }
}

std::string as_version(std::string frame, int version) {
  frame[4] = static_cast<char>(version);
  return frame;
}

Frame only_frame(const std::string& bytes) {
  FrameReader reader;
  reader.append(bytes);
  Frame frame;
  REQUIRE(reader.next(frame) == FrameReader::Status::complete);
  return frame;
}

}  // namespace

TEST_CASE("who shares run and secret proves it, however the bytes are cut", "[handshake]") {
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{4096}}) {
    HandshakeProtocol client = HandshakeProtocol::client(of_run, "link 3");
    HandshakeProtocol server = HandshakeProtocol::server(of_run, "link");
    talk(client, server, step);
    CHECK(client.state() == State::proved);
    CHECK(server.state() == State::proved);
    CHECK(server.purpose() == "link 3");
  }
}

TEST_CASE("without a secret on both sides everybody of the run comes in", "[handshake]") {
  const Credentials insecure{"run", ""};
  HandshakeProtocol client = HandshakeProtocol::client(insecure, "store:");
  HandshakeProtocol server = HandshakeProtocol::server(insecure);
  talk(client, server);
  CHECK(client.state() == State::proved);
  CHECK(server.state() == State::proved);
}

TEST_CASE("who differs is refused and both sides say why", "[handshake]") {
  struct Row {
    Credentials client;
    std::string purpose;
    std::string client_says;
    std::string server_says;
  };
  const std::vector<Row> rows{
      {{"run", "other"}, "link 3", "--token-file", "LOCKSTEP_TOKEN"},
      {{"run", ""}, "link 3", "--insecure", "--insecure"},
      {{"other", "secret"}, "link 3", "another run", "another run"},
      {{"run", "secret"}, "store:", "something else", "does not serve"},
  };
  for (const Row& row : rows) {
    HandshakeProtocol client = HandshakeProtocol::client(row.client, row.purpose);
    HandshakeProtocol server = HandshakeProtocol::server(of_run, "link");
    talk(client, server);
    CHECK(client.state() == State::refused);
    CHECK(server.state() == State::refused);
    CHECK_THAT(client.problem(), tests::contains(row.client_says));
    CHECK_THAT(server.problem(), tests::contains(row.server_says));
  }
}

TEST_CASE("another version is named on both sides", "[handshake]") {
  HandshakeProtocol client = HandshakeProtocol::client(of_run, "store:");
  HandshakeProtocol server = HandshakeProtocol::server(of_run);
  server.receive(as_version(client.take_outgoing(), 2));
  CHECK(server.state() == State::refused);
  CHECK(server.problem() == "it runs Lockstep protocol 2, this is 1: use the same version on all nodes");
  client.receive(as_version(server.take_outgoing(), 3));
  CHECK(client.state() == State::refused);
  CHECK(client.problem() == "it runs Lockstep protocol 3, this is 1: use the same version on all nodes");
}

TEST_CASE("recorded bytes prove nothing", "[handshake]") {
  HandshakeProtocol client = HandshakeProtocol::client(of_run, "store:");
  HandshakeProtocol server = HandshakeProtocol::server(of_run);
  const std::string recorded = talk(client, server);
  REQUIRE(server.state() == State::proved);
  HandshakeProtocol fresh = HandshakeProtocol::server(of_run);
  fresh.receive(recorded);
  CHECK(fresh.state() == State::refused);
  CHECK_THAT(fresh.problem(), tests::contains("LOCKSTEP_TOKEN"));
}

TEST_CASE("a client's own words do not prove a server", "[handshake]") {
  HandshakeProtocol client = HandshakeProtocol::client(of_run, "store:");
  client.take_outgoing();
  client.receive(encode({Frame::Type::challenge, std::string(32, 'c')}));
  const Frame proof = only_frame(client.take_outgoing());
  REQUIRE(proof.type == Frame::Type::proof);
  client.receive(encode({Frame::Type::welcome, proof.payload}));
  CHECK(client.state() == State::refused);
}

TEST_CASE("a purpose is covered by the proof", "[handshake]") {
  HandshakeProtocol client = HandshakeProtocol::client(of_run, "link 3");
  HandshakeProtocol server = HandshakeProtocol::server(of_run);
  std::string hello = client.take_outgoing();
  hello[hello.find("link 3") + 5] = '4';
  server.receive(hello);
  client.receive(server.take_outgoing());
  server.receive(client.take_outgoing());
  CHECK(server.state() == State::refused);
}

TEST_CASE("a server tells an unauthenticated client nothing and keeps little of its data", "[handshake]") {
  const std::vector<std::string> garbage{
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      std::string(5000, '\xff'),
      encode({Frame::Type::hello, std::string(most_hello_bytes + 1, 'x')}),
      encode({Frame::Type::hello, std::string(100, '\0')}),
      encode({Frame::Type::proof, std::string(32, 'x')}),
      encode({Frame::Type::get, FieldWriter().text("key").number(0).take()}),
  };
  for (const std::string& bytes : garbage) {
    HandshakeProtocol server = HandshakeProtocol::server(of_run);
    server.receive(bytes);
    CHECK(server.state() == State::refused);
    CHECK(server.take_outgoing().empty());
  }
  const std::string hello = HandshakeProtocol::client(of_run, "store:").take_outgoing();
  HandshakeProtocol server = HandshakeProtocol::server(of_run);
  server.receive(hello.substr(0, hello.size() - 1));
  CHECK(server.state() == State::pending);
  CHECK(server.missing_bytes() == 1);
  CHECK(server.take_outgoing().empty());
  const std::string long_purpose(HandshakeProtocol::most_purpose_bytes + 1, 'p');
  server.receive(hello.substr(hello.size() - 1));
  CHECK_FALSE(server.take_outgoing().empty());
  HandshakeProtocol other = HandshakeProtocol::server(of_run);
  other.receive(HandshakeProtocol::client(of_run, long_purpose).take_outgoing());
  CHECK(other.state() == State::refused);
}

TEST_CASE("a refusal is shown without control characters", "[handshake]") {
  HandshakeProtocol client = HandshakeProtocol::client(of_run, "store:");
  client.receive(encode({Frame::Type::refused, "no\x1b[2J\nfake line"}));
  CHECK(client.problem() == "no?[2J?fake line");
}

TEST_CASE("nothing that is sent holds the secret", "[handshake]") {
  const Credentials marked{"run", "a-secret-that-is-easy-to-find"};
  HandshakeProtocol client = HandshakeProtocol::client(marked, "store:");
  HandshakeProtocol server = HandshakeProtocol::server(marked);
  CHECK(talk(client, server).find(marked.secret) == std::string::npos);
  CHECK(make_secret() != make_secret());
  CHECK(make_secret().size() == 64);
}
