#include "comm/net/tls_stream.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/net/credentials.h"
#include "kernels/base/unique_fd.h"
#include "tests/support/catch.h"
#include "tests/support/socket_pair.h"

using namespace lockstep;
using namespace lockstep::comm;

namespace {

using Progress = TlsStream::Progress;
using Role = TlsStream::Role;

const Credentials of_run{"run", "the secret of the run"};

/// Both ends of a connection, each with credentials of its own.
struct Ends {
  Ends(const Credentials& of_client, const Credentials& of_server)
      : client_context(of_client),
        server_context(of_server),
        client(client_context, Role::client, sockets.client.get()),
        server(server_context, Role::server, sockets.server.get()) {}

  /// Until both have ended, or wait for each other.
  void shake_hands() {
    for (int turn = 0; turn < 5; ++turn) {
      if (client_is != Progress::done && client_is != Progress::failed) client_is = client.handshake();
      if (server_is != Progress::done && server_is != Progress::failed) server_is = server.handshake();
    }
  }

  tests::SocketPair sockets;
  TlsContext client_context;
  TlsContext server_context;
  TlsStream client;
  TlsStream server;
  Progress client_is = Progress::wants_output;
  Progress server_is = Progress::wants_input;
};

struct Connected : Ends {
  explicit Connected(const Credentials& credentials = of_run) : Ends(credentials, credentials) {
    shake_hands();
    REQUIRE(client_is == Progress::done);
    REQUIRE(server_is == Progress::done);
  }
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Sends all of `text` while the other end receives; what it received until nothing was on the way.
std::string transfer(TlsStream& from, TlsStream& to, std::string_view text) {
  std::string received(text.size(), '\0');
  std::size_t sent = 0;
  std::size_t got = 0;
  for (bool moves = true; moves;) {
    moves = false;
    std::size_t some = 0;
    if (sent < text.size() && from.send_some(bytes_of(text.substr(sent)), {}, some) == Transfer::some) {
      sent += some;
      moves = true;
    }
    const auto room = std::as_writable_bytes(std::span(received)).subspan(got);
    if (!room.empty() && to.receive_some(room, some) == Transfer::some) {
      got += some;
      moves = true;
    }
  }
  received.resize(got);
  return received;
}

std::string pattern(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 2654435761U >> 11 & 0xFF);
  return text;
}

/// What lies unread at one end; it stays there.
std::string on_the_wire(const UniqueFd& socket) {
  std::string bytes(std::size_t{1} << 16, '\0');
  const ssize_t got = recv(socket.get(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

/// A server with a certificate that it made itself.
std::unique_ptr<SSL_CTX, Free> server_with_certificate() {
  const std::unique_ptr<EVP_PKEY, Free> key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, Free> certificate(X509_new());
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  REQUIRE(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0);
  std::unique_ptr<SSL_CTX, Free> context(SSL_CTX_new(TLS_server_method()));
  REQUIRE(SSL_CTX_use_certificate(context.get(), certificate.get()) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1);
  return context;
}

}  // namespace

TEST_CASE("who shares run and secret gets a connection both ways", "[tls]") {
  for (const Credentials& credentials :
       {of_run, Credentials{"run", ""}, Credentials{"run", of_run.secret, 7}}) {
    Connected ends(credentials);
    CHECK(ends.server.peer_shows_key());
    CHECK(transfer(ends.client, ends.server, "from the client") == "from the client");
    CHECK(transfer(ends.server, ends.client, "from the server") == "from the server");
  }
}

TEST_CASE("who differs is refused and both sides say why", "[tls]") {
  struct Row {
    Credentials client;
    std::string client_says;
    std::string server_says;
  };
  const std::vector<Row> rows{
      {{"run", "another secret"}, "--token-file", "LOCKSTEP_TOKEN"},
      {{"run", ""}, "--insecure", "--insecure"},
      {{"other", of_run.secret}, "another run", "another run"},
      {{"run", of_run.secret, 2}, "another run", "another run"},
  };
  for (const Row& row : rows) {
    Ends ends(row.client, of_run);
    ends.shake_hands();
    CHECK(ends.client_is == Progress::failed);
    CHECK(ends.server_is == Progress::failed);
    CHECK_FALSE(ends.server.peer_shows_key());
    CHECK_THAT(ends.client.problem(), tests::contains(row.client_says));
    CHECK_THAT(ends.server.problem(), tests::contains(row.server_says));
  }
}

TEST_CASE("a first message shows the key before the handshake is over", "[tls]") {
  Ends ends(of_run, of_run);
  ends.client.handshake();
  CHECK_FALSE(ends.server.peer_shows_key());
  CHECK(ends.server.handshake() == Progress::wants_input);
  CHECK(ends.server.peer_shows_key());
}

TEST_CASE("a TLS server with a certificate is none of the run", "[tls]") {
  const tests::SocketPair sockets;
  const TlsContext context(of_run);
  TlsStream client(context, Role::client, sockets.client.get());
  const auto server_context = server_with_certificate();
  const std::unique_ptr<SSL, Free> server(SSL_new(server_context.get()));
  SSL_set_fd(server.get(), sockets.server.get());
  Progress progress = client.handshake();
  SSL_accept(server.get());
  for (int turn = 0; turn < 5 && progress == Progress::wants_input; ++turn) progress = client.handshake();
  CHECK(progress == Progress::failed);
  CHECK_THAT(client.problem(), tests::contains("another TLS server"));
}

TEST_CASE("a server answers what is no handshake with nothing", "[tls]") {
  const std::vector<std::string> strangers{"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                           std::string(5000, '\xff'),
                                           "LKS1 and so on, as Lockstep spoke once"};
  for (const std::string& said : strangers) {
    const tests::SocketPair sockets;
    const TlsContext context(of_run);
    TlsStream server(context, Role::server, sockets.server.get());
    REQUIRE(send(sockets.client.get(), said.data(), said.size(), 0) > 0);
    CHECK(server.handshake() == Progress::failed);
    CHECK_THAT(server.problem(), tests::contains("does not speak Lockstep's protocol"));
    CHECK(on_the_wire(sockets.client).empty());
  }
}

TEST_CASE("a recorded client proves nothing", "[tls]") {
  Ends recorded(of_run, of_run);
  recorded.client.handshake();
  const std::string hello = on_the_wire(recorded.sockets.server);
  recorded.shake_hands();
  REQUIRE(recorded.server_is == Progress::done);

  const tests::SocketPair sockets;
  const TlsContext context(of_run);
  TlsStream server(context, Role::server, sockets.server.get());
  REQUIRE(send(sockets.client.get(), hello.data(), hello.size(), 0) > 0);
  CHECK(server.handshake() == Progress::wants_input);
  REQUIRE(send(sockets.client.get(), hello.data(), hello.size(), 0) > 0);
  CHECK(server.handshake() == Progress::failed);
}

TEST_CASE("much goes through small sockets, in pieces from two places", "[tls]") {
  Connected ends;
  ends.server.read_ahead();
  const std::string text = pattern(3'000'003);
  CHECK(transfer(ends.client, ends.server, text) == text);
  CHECK(transfer(ends.server, ends.client, text) == text);

  std::size_t sent = 0;
  REQUIRE(ends.client.send_some(bytes_of("header "), bytes_of("and the rest"), sent) == Transfer::some);
  CHECK(sent == 19);
  CHECK(transfer(ends.client, ends.server, std::string(19, ' ')).starts_with("header and the rest"));
}

TEST_CASE("what a full socket did not take may have grown when it is given again", "[tls]") {
  Connected ends;
  std::string text = pattern(1'000'003);
  std::size_t sent = 0;
  std::size_t some = 0;
  while (ends.client.send_some(bytes_of(text).subspan(sent), {}, some) == Transfer::some) sent += some;
  REQUIRE(sent > 0);
  REQUIRE(sent < text.size());
  text += " and more";
  std::string received(sent, '\0');
  for (std::size_t got = 0; got < sent; got += some) {
    const auto room = std::as_writable_bytes(std::span(received)).subspan(got);
    REQUIRE(ends.server.receive_some(room, some) == Transfer::some);
  }
  CHECK(received == text.substr(0, sent));
  const std::string rest = text.substr(sent);
  CHECK(transfer(ends.client, ends.server, rest) == rest);
}

TEST_CASE("a key is renewed in the midst of a stream", "[tls]") {
  Connected ends;
  const std::string text = pattern(100'000);
  for (int turn = 0; turn < 3; ++turn) {
    CHECK(transfer(ends.client, ends.server, text) == text);
    ends.client.renew_key();
    CHECK(transfer(ends.server, ends.client, text) == text);
    ends.server.renew_key();
  }
}

TEST_CASE("what goes over the wire cannot be read, and not changed", "[tls]") {
  Connected ends;
  std::size_t sent = 0;
  REQUIRE(ends.client.send_some(bytes_of("a gradient"), {}, sent) == Transfer::some);
  std::string wire = on_the_wire(ends.sockets.server);
  CHECK(wire.find("gradient") == std::string::npos);
  CHECK(wire.find(of_run.secret) == std::string::npos);
  std::string taken(wire.size(), '\0');
  REQUIRE(recv(ends.sockets.server.get(), taken.data(), taken.size(), 0) > 0);

  wire.back() ^= 1;
  REQUIRE(send(ends.sockets.client.get(), wire.data(), wire.size(), 0) > 0);
  std::byte byte{};
  std::size_t received = 0;
  CHECK(ends.server.receive_some(std::span(&byte, 1), received) == Transfer::closed);
  CHECK_THAT(ends.server.problem(), tests::contains("changed on the way"));
}

TEST_CASE("a closed socket is a closed connection", "[tls]") {
  Connected ends;
  ends.sockets.client.reset();
  std::byte byte{};
  std::size_t received = 0;
  CHECK(ends.server.receive_some(std::span(&byte, 1), received) == Transfer::closed);
  CHECK(ends.server.problem().empty());
  std::size_t sent = 0;
  CHECK(ends.server.send_some(bytes_of("x"), {}, sent) == Transfer::closed);  // and no SIGPIPE
}

TEST_CASE("keys differ by secret, run and incarnation, and names do not tell them", "[tls]") {
  const RunKey key = derive_run_key(of_run);
  CHECK(key.key == derive_run_key(of_run).key);
  for (const Credentials& other :
       {Credentials{"run", "x"}, Credentials{"other", of_run.secret}, Credentials{"run", of_run.secret, 1}}) {
    CHECK(derive_run_key(other).key != key.key);
    CHECK(derive_run_key(other).identity.find(other.run_id) == std::string::npos);
  }
  CHECK(make_secret() != make_secret());
  CHECK(make_secret().size() == 64);
}
