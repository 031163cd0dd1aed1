// Who comes to the socket of a group while it forms, and while it ends, gets an answer.
#include "comm/shm/local_rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <future>
#include <string>

#include "comm/shm/monitor.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/ranks.h"

namespace lockstep::comm {
namespace {

using testing::fresh_run_id;

constexpr Seconds patience{10};

/// Members 0 and 1 of a node, which are threads of this process.
NodeMembers member(int index, const std::string& run_id) {
  return {.ranks = {0, 1}, .index = index, .socket_name = "lockstep-test-" + run_id, .run_id = run_id};
}

std::future<LocalGroup> open_apart(const NodeMembers& members) {
  return std::async(std::launch::async,
                    [members] { return open_local_group(members, Deadline::in(patience)); });
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

}  // namespace
}  // namespace lockstep::comm
