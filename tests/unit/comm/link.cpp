#include "comm/tcp/link.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/net/tcp.h"
#include "kernels/base/deadline.h"
#include "tests/support/catch.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kib = 1024;
const Seconds patience(10);

/// A link over TCP, and the bare socket at its other end.
struct Pair {
  Pair() {
    const UniqueFd listener = listen_tcp("127.0.0.1", 0);
    std::string obstacle;
    link.emplace(
        1, Channel(connect_tcp("127.0.0.1", local_port(listener.get()), Deadline::in(patience), obstacle)));
    REQUIRE(wait_for_socket(listener.get(), POLLIN, Deadline::in(patience)));
    peer = accept_tcp(listener.get());
  }

  /// Sends, and returns when all of it, and nothing else, lies unread on the link's side.
  void send(std::string_view bytes) {
    const int unread_before = unread();
    const Deadline deadline = Deadline::in(patience);
    for (std::string_view rest = bytes; !rest.empty();) {
      REQUIRE(wait_for_socket(peer.get(), POLLOUT, deadline));
      REQUIRE(send_some(peer.get(), rest) != Transfer::closed);
    }
    while (unread() < unread_before + static_cast<int>(bytes.size()) && !deadline.passed())
      std::this_thread::yield();
    REQUIRE(unread() == unread_before + static_cast<int>(bytes.size()));
  }

  void send_header(std::size_t chunk_bytes) {
    const ChunkHeader header{.kind = ChunkHeader::Kind::sum,
                             .bytes = static_cast<std::uint32_t>(chunk_bytes)};
    send({reinterpret_cast<const char*>(&header), sizeof(header)});
  }

  /// A chunk's header has come; the link waits for the rest, in turns worth 128 KiB.
  void await_chunk(std::size_t bytes) {
    send_header(bytes);
    receive();
    link->gather_before_waking(128 * kib, 0);
  }

  void receive() {
    REQUIRE(link->receive_some([&](const ChunkHeader&) { return chunk.data(); },
                               [&](const ChunkHeader&) { ++chunks_here; }));
  }

  int unread() const {
    int bytes = 0;
    REQUIRE(ioctl(link->fd(), FIONREAD, &bytes) == 0);
    return bytes;
  }

  bool wakes() const {
    pollfd event{link->fd(), POLLIN, 0};
    return poll(&event, 1, 0) == 1;
  }

  std::optional<Link> link;
  UniqueFd peer;
  std::vector<std::byte> chunk = std::vector<std::byte>(512 * kib);
  int chunks_here = 0;
};

TEST_CASE("a waiter wakes when the rest of a chunk is there, not for each packet", "[comm]") {
  Pair pair;
  pair.await_chunk(64 * kib);
  pair.send(std::string(64 * kib - 1, 'x'));
  CHECK_FALSE(pair.wakes());
  pair.send("x");
  CHECK(pair.wakes());
  pair.receive();
  CHECK(pair.chunks_here == 1);
}

TEST_CASE("a waiter wakes for a part of a long chunk that is worth a copy, and then for the rest", "[comm]") {
  Pair pair;
  pair.await_chunk(200 * kib);
  pair.send(std::string(128 * kib - 1, 'x'));
  CHECK_FALSE(pair.wakes());
  pair.send("x");
  CHECK(pair.wakes());
  pair.receive();
  pair.link->gather_before_waking(128 * kib, 0);
  pair.send(std::string(72 * kib, 'x'));
  CHECK(pair.wakes());
  pair.receive();
  CHECK(pair.chunks_here == 1);
}

TEST_CASE("a waiter wakes for a chunk with its header, where it is known how long that is", "[comm]") {
  Pair pair;
  pair.link->gather_before_waking(128 * kib, 64 * kib);
  pair.send_header(64 * kib);
  pair.send(std::string(64 * kib - 1, 'x'));
  CHECK_FALSE(pair.wakes());
  pair.send("x");
  CHECK(pair.wakes());
  pair.receive();
  CHECK(pair.chunks_here == 1);
}

TEST_CASE("without gathering a byte wakes the reader", "[comm]") {
  Pair pair;
  pair.await_chunk(64 * kib);
  pair.link->gather_before_waking(1, 0);
  CHECK_FALSE(pair.wakes());
  pair.send("x");
  CHECK(pair.wakes());
}

TEST_CASE("a waiter wakes for the next header after a long chunk, and for a peer that is gone", "[comm]") {
  Pair pair;
  pair.await_chunk(512 * kib);
  for (int part = 0; part < 4; ++part) {
    pair.send(std::string(128 * kib, 'x'));
    pair.receive();
  }
  CHECK(pair.chunks_here == 1);
  pair.link->gather_before_waking(128 * kib, 0);
  pair.send_header(64 * kib);
  CHECK(pair.wakes());
  pair.receive();
  pair.link->gather_before_waking(128 * kib, 0);
  pair.peer.reset();
  CHECK(wait_for_socket(pair.link->fd(), POLLIN, Deadline::in(patience)));
}

TEST_CASE("no goodbye is said in the midst of a chunk", "[comm]") {
  Pair pair;
  const std::vector<std::byte> bytes(std::size_t{32} << 20, std::byte{'x'});
  pair.link->post({.kind = ChunkHeader::Kind::sum}, bytes);
  while (wait_for_socket(pair.link->fd(), POLLOUT, Deadline::in(Seconds(0)))) REQUIRE(pair.link->send_some());
  REQUIRE(pair.link->has_outgoing());
  std::string received;
  receive_some(pair.peer.get(), received);  // room for a goodbye
  pair.link->say_goodbye();
  pair.link.reset();
  while (wait_for_socket(pair.peer.get(), POLLIN, Deadline::in(patience))) {
    if (receive_some(pair.peer.get(), received) == Transfer::closed) break;
  }
  REQUIRE(received.size() > sizeof(ChunkHeader));
  CHECK(received.find_first_not_of('x', sizeof(ChunkHeader)) == std::string::npos);
}

}  // namespace
}  // namespace lockstep::comm
