// Who comes to the socket of a group while it forms, and while it ends, gets an answer; what cannot be sent
// there holds nobody.
#include "comm/shm/local_rendezvous.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm/shm/monitor.h"
#include "comm/shm/node_ranks.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/skip.h"
#include "tests/unit/comm/ranks.h"

namespace {

/// Of this thread's calls of sendmsg the one of this number, from 1, gives ENOBUFS.
thread_local int failing_send = 0;

/// What accept4 fails with, unless 0, and how often it did.
std::atomic<int> accept_error = 0;
std::atomic<int> failed_accepts = 0;

}  // namespace

extern "C" int accept4(int socket, sockaddr* address, socklen_t* length, int flags) {
  const int error = accept_error;
  if (error == 0) return static_cast<int>(syscall(SYS_accept4, socket, address, length, flags));
  ++failed_accepts;
  errno = error;
  return -1;
}

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  if (failing_send > 0 && --failing_send == 0) {
    errno = ENOBUFS;
    return -1;
  }
  return syscall(SYS_sendmsg, socket, message, flags);
}

namespace lockstep::comm {
namespace {

using Catch::Matchers::StartsWith;
using testing::fresh_run_id;
using testing::local_world;
using testing::RankProcess;

constexpr Seconds patience{10};
constexpr uid_t another_user = 65534;

/// Members 0 and 1 of a node, which are threads of this process.
NodeMembers member(int index, const std::string& run_id) {
  return {.ranks = {0, 1}, .index = index, .socket_name = "lockstep-test-" + run_id, .run_id = run_id};
}

std::future<LocalGroup> open_apart(const NodeMembers& members) {
  return std::async(std::launch::async,
                    [members] { return open_local_group(members, Deadline::in(patience)); });
}

/// Why this member lost the other, in the rendezvous or behind it; its message of this number, from 1, cannot
/// be sent.
std::future<std::string> failure_of(const NodeMembers& members, int failing_message, Seconds timeout) {
  return std::async(std::launch::async, [=] {
    failing_send = failing_message;
    return tests::message_of<CommError>([&] {
      LocalGroup group = open_local_group(members, Deadline::in(timeout));
      std::promise<std::string> loss;
      auto lost = loss.get_future();
      const Monitor monitor(group, members,
                            [&](const LocalPeer& peer) { loss.set_value(name_of(peer.rank, peer.pid)); });
      if (lost.wait_for(timeout) == std::future_status::ready) throw CommError("lost " + lost.get());
    });
  });
}

UniqueFd connect_when_it_listens(const NodeMembers& members) {
  const Deadline deadline = Deadline::in(patience);
  while (true) {
    UniqueFd socket = connect_local(members.socket_name);
    if (socket) return socket;
    REQUIRE_FALSE(deadline.passed());
  }
}

LocalMessage answer_on(const UniqueFd& socket) {
  pollfd event{socket.get(), POLLIN, 0};
  REQUIRE(poll(&event, 1, 10'000) == 1);
  LocalMessage answer;
  REQUIRE(receive_local(socket.get(), answer) == Arrival::message);
  return answer;
}

TEST_CASE("who has connected and not spoken when the group is whole is told that its rank runs", "[comm]") {
  const std::string run_id = fresh_run_id();
  const NodeMembers leader = member(0, run_id);
  const NodeMembers peer = member(1, run_id);
  auto leading = open_apart(leader);
  const UniqueFd second_start = connect_when_it_listens(leader);
  auto joining = open_apart(peer);
  LocalGroup group = leading.get();
  const LocalGroup joined = joining.get();
  Monitor monitor(group, leader, [](const LocalPeer&) {});
  REQUIRE(send_local(second_start.get(), hello_of(peer)));
  const LocalMessage answer = answer_on(second_start);
  CHECK(answer.type == LocalMessage::Type::taken);
  CHECK(std::string(answer.text) == name_of(1, getpid()));
}

/// accept4 fails with `error` as long as this lives.
class FailingAccepts {
 public:
  explicit FailingAccepts(int error) {
    failed_accepts = 0;
    accept_error = error;
  }
  ~FailingAccepts() { accept_error = 0; }
  FailingAccepts(const FailingAccepts&) = delete;
  FailingAccepts& operator=(const FailingAccepts&) = delete;
};

TEST_CASE("a leader without a descriptor for its peers says so at once", "[comm]") {
  const int error = GENERATE(EMFILE, ENFILE, ENOBUFS, ENOMEM);
  const std::string run_id = fresh_run_id();
  const FailingAccepts failing(error);
  const auto begin = Clock::now();
  auto joining = open_apart(member(1, run_id));
  const NodeMembers leader = member(0, run_id);
  const std::string said =
      tests::message_of<DeviceError>([&] { open_local_group(leader, Deadline::in(patience)); });
  CHECK_THAT(said, StartsWith("rank 0 cannot take a connection at the rendezvous: " + errno_message(error)));
  CHECK_THROWS_AS(joining.get(), CommError);
  CHECK(Clock::now() - begin < patience / 2);
}

TEST_CASE("a leader without a descriptor for a newcomer asks ten times a second, and then answers",
          "[comm]") {
  const std::string run_id = fresh_run_id();
  const NodeMembers leader = member(0, run_id);
  const NodeMembers peer = member(1, run_id);
  auto joining = open_apart(peer);
  LocalGroup group = open_local_group(leader, Deadline::in(patience));
  const LocalGroup joined = joining.get();
  std::optional<FailingAccepts> failing(EMFILE);
  const Monitor monitor(group, leader, [](const LocalPeer&) {});
  const auto begin = Clock::now();
  const UniqueFd second_start = connect_when_it_listens(leader);
  REQUIRE(send_local(second_start.get(), hello_of(peer)));
  while (failed_accepts < 3) std::this_thread::yield();
  CHECK(Clock::now() - begin >= Seconds(0.2));
  failing.reset();
  CHECK(answer_on(second_start).type == LocalMessage::Type::taken);
}

TEST_CASE("ranks of a node wait for each other until the deadline of the rendezvous, not for a time-out",
          "[comm]") {
  const auto begin = Clock::now();
  const std::string said = tests::message_of<CommError>(
      [] { const NodeRanks node(member(0, fresh_run_id()), patience, Deadline::in(Seconds(0.2))); });
  CHECK_THAT(said, StartsWith("rank 1 did not join the rendezvous in time"));
  CHECK(Clock::now() - begin < patience / 2);
}

TEST_CASE("the socket of a node has its user in its name", "[comm]") {
  CHECK(local_socket_name("run", "2", 1) == fmt::format("lockstep-{}-run-2-1", geteuid()));
}

void become_another_user() {
  if (setuid(another_user) != 0) throw std::runtime_error("cannot become another user");
}

TEST_CASE("two users' runs of the same id meet side by side", "[comm]") {
  if (geteuid() != 0) return tests::skip("only root can become another user");
  const std::string run_id = fresh_run_id();
  const auto open_both = [&run_id] {
    auto joining = open_apart(all_on_one_node(local_world(1, 2, run_id)));
    LocalGroup group = open_local_group(all_on_one_node(local_world(0, 2, run_id)), Deadline::in(patience));
    joining.get();
    return group;
  };
  const LocalGroup ours = open_both();
  RankProcess theirs([&] {
    become_another_user();
    open_both();
  });
  CHECK(theirs.outcome().empty());
}

TEST_CASE("another user who has the socket of a run is named", "[comm]") {
  if (geteuid() != 0) return tests::skip("only root can become another user");
  const std::string run_id = fresh_run_id();
  const NodeMembers leader = member(0, run_id);
  const RankProcess other([&] {
    become_another_user();
    const UniqueFd listener = listen_local(leader.socket_name);
    while (true) pause();
  });
  connect_when_it_listens(leader);
  for (const NodeMembers& one : {leader, member(1, run_id)}) {
    const std::string said =
        tests::message_of<CommError>([&] { open_local_group(one, Deadline::in(Seconds(0.2))); });
    CHECK_THAT(said, tests::contains(fmt::format(" is held by user {} (pid {})", another_user, other.pid())));
  }
}

TEST_CASE("the last message of a peer that closes comes, although ours to it was not read", "[comm]") {
  std::array<int, 2> ends{};
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
  const UniqueFd newcomer(ends[0]);
  UniqueFd leader(ends[1]);
  REQUIRE(send_local(newcomer.get(), hello_of(member(1, fresh_run_id()))));
  LocalMessage leaving;
  leaving.type = LocalMessage::Type::leaving;
  REQUIRE(send_local(leader.get(), leaving));
  leader.reset();
  CHECK(answer_on(newcomer).type == LocalMessage::Type::leaving);
  LocalMessage more;
  CHECK(receive_local(newcomer.get(), more) == Arrival::closed);
}

TEST_CASE("a message that cannot be sent ends the connection at both ends, and each names the other",
          "[comm]") {
  struct Case {
    const char* message;
    int of_leader, of_peer;  ///< whose message fails; 0: none
    std::string leader_says;
    Seconds leader_waits = patience;
  };
  const std::string rank_1 = name_of(1, getpid());
  const std::string to_rank_1 = "the connection to " + rank_1 + " ended during the rendezvous";
  const Case c = GENERATE_COPY(
      Case{"welcome", 1, 0, to_rank_1}, Case{"go", 2, 0, "lost " + rank_1}, Case{"ready", 0, 2, to_rank_1},
      // Who it was is what its hello would have said.
      Case{"hello", 0, 1, "rank 1 did not join the rendezvous in time", Seconds(0.3)});
  INFO(c.message);
  const std::string run_id = fresh_run_id();
  const auto begin = Clock::now();
  auto leader = failure_of(member(0, run_id), c.of_leader, c.leader_waits);
  auto peer = failure_of(member(1, run_id), c.of_peer, patience);
  CHECK_THAT(leader.get(), StartsWith(c.leader_says));
  CHECK(peer.get() == "the connection to rank 0 ended during the rendezvous");
  CHECK(Clock::now() - begin < patience / 2);
}

}  // namespace
}  // namespace lockstep::comm
