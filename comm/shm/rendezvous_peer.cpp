#include "comm/shm/rendezvous_peer.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "comm/shm/local_socket.h"
#include "kernels/base/deadline.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

// The leader's report names those who are missing; it is sent at the same deadline, so wait a little longer
// for it.
constexpr Seconds grace_for_report{0.5};

UniqueFd connect_before(const NodeMembers& members, Deadline deadline) {
  using namespace std::chrono_literals;
  auto pause = 100us;
  std::string obstacle = fmt::format("rank {} did not come to the meeting", members.rank_at(0));
  while (true) {
    UniqueFd socket = connect_local(members.meeting);
    if (socket) {
      const LocalCredentials host = peer_credentials(socket.get());
      if (host.uid == geteuid()) return socket;
      obstacle = fmt::format("the meeting socket @{} is held by user {} (pid {})", members.meeting, host.uid,
                             host.pid);
    }
    if (deadline.passed())
      throw CommError(fmt::format("{} in time: did it start, with the same run id?", obstacle));
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::microseconds>(pause * 2, 5ms);
  }
}

/// The next message of the leader, which must be `expected`.
LocalMessage expect(int socket, LocalMessage::Type expected, const NodeMembers& members, Deadline deadline,
                    UniqueFd* passed_fd = nullptr) {
  const int leader = members.rank_at(0);
  const Deadline last = Deadline::in(deadline.left() + grace_for_report);
  LocalMessage message;
  while (true) {
    switch (receive_local(socket, message, passed_fd)) {
      case Arrival::message:
        if (message.type == expected) return message;
        if (message.type == LocalMessage::Type::refuse) throw CommError(message.text);
        [[fallthrough]];
      case Arrival::malformed:
        throw CommError(
            fmt::format("rank {} speaks another protocol: do all ranks run the same version?", leader));
      case Arrival::closed:
        throw CommError(fmt::format("rank {} closed its connection during the meeting", leader));
      case Arrival::nothing_yet:
        break;
    }
    if (last.passed()) throw CommError(fmt::format("rank {} did not complete the meeting in time", leader));
    pollfd event{socket, POLLIN, 0};
    poll(&event, 1, poll_milliseconds(last.left()));
  }
}

}  // namespace

LocalGroup join_meeting(const NodeMembers& members, Deadline deadline) {
  UniqueFd socket = connect_before(members, deadline);
  LocalMessage hello;
  hello.rank = members.index;
  hello.size = members.size();
  send_local(socket.get(), hello);  // a failure shows as a closed connection below

  UniqueFd memfd;
  expect(socket.get(), LocalMessage::Type::welcome, members, deadline, &memfd);
  Segment segment = Segment::open(std::move(memfd), members.size());
  segment.publish_affinity(members.index);

  LocalMessage ready;
  ready.type = LocalMessage::Type::ready;
  ready.rank = members.index;
  ready.nonce = segment.nonce();
  send_local(socket.get(), ready);
  expect(socket.get(), LocalMessage::Type::go, members, deadline);

  std::vector<LocalPeer> peers;
  const pid_t host_pid = peer_credentials(socket.get()).pid;
  peers.push_back(LocalPeer{.rank = members.rank_at(0), .pid = host_pid, .socket = std::move(socket)});
  return LocalGroup{std::move(segment), std::move(peers)};
}

}  // namespace lockstep::comm
