#include "comm/shm/local_rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <numeric>
#include <span>
#include <thread>

#include "comm/polling.h"
#include "comm/shm/rendezvous_leader.h"
#include "comm/watchdog/failure_report.h"
#include "kernels/base/deadline.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

// The leader's report names the missing ranks; it is sent at the same deadline, so wait a little longer for
// it.
constexpr Seconds grace_for_report{0.5};

constexpr std::chrono::milliseconds pause_for_next_leader{5};

UniqueFd connect_before(const NodeMembers& members, Deadline deadline, const Look& look) {
  using namespace std::chrono_literals;
  Backoff backoff({.eager = 0us, .first = 100us, .longest = 5ms});
  std::string obstacle = absence_of({members.rank_at(0)});
  while (true) {
    UniqueFd socket = connect_local(members.socket_name);
    if (socket) {
      const LocalCredentials leader = peer_credentials(socket.get());
      if (leader.uid == geteuid()) return socket;
      obstacle = held_by_other_user(members, leader);
    }
    if (deadline.passed()) throw CommError(obstacle);
    if (look) look();
    backoff.pause();
  }
}

/// The next message of the leader, which must be one of `expected`.
LocalMessage expect(int socket, std::initializer_list<LocalMessage::Type> expected,
                    const NodeMembers& members, Deadline deadline, const Look& look,
                    UniqueFd* passed_fd = nullptr) {
  const int leader = members.rank_at(0);
  const Deadline last = Deadline::in(deadline.left() + grace_for_report);
  LocalMessage message;
  while (true) {
    switch (receive_local(socket, message, passed_fd)) {
      case Arrival::message:
        if (std::ranges::find(expected, message.type) != expected.end()) return message;
        if (message.type == LocalMessage::Type::refuse) throw CommError(message.text);
        if (message.type == LocalMessage::Type::taken) throw second_start(members.run_id, message.text);
        [[fallthrough]];
      case Arrival::malformed:
        throw CommError(
            fmt::format("rank {} speaks another protocol: do all ranks run the same version?", leader));
      case Arrival::closed:
        throw CommError(fmt::format("the connection to rank {} ended during the rendezvous", leader));
      case Arrival::nothing_yet:
        break;
    }
    pollfd event{socket, POLLIN, 0};
    if (!poll_and_look(std::span(&event, 1), last, look)) {
      throw CommError(fmt::format("rank {} did not complete the rendezvous in time", leader));
    }
  }
}

/// False when who listens leads a group that comes to its end.
bool is_welcomed(int leader, const NodeMembers& members, Deadline deadline, const Look& look,
                 UniqueFd& memfd) {
  using Type = LocalMessage::Type;
  send_local(leader, hello_of(members));  // a failure ends the connection
  return expect(leader, {Type::welcome, Type::leaving}, members, deadline, look, &memfd).type ==
         Type::welcome;
}

LocalGroup join_as_peer(const NodeMembers& members, Deadline deadline, const Look& look) {
  UniqueFd memfd;
  UniqueFd socket = connect_before(members, deadline, look);
  while (!is_welcomed(socket.get(), members, deadline, look, memfd)) {
    std::this_thread::sleep_for(pause_for_next_leader);
    socket = connect_before(members, deadline, look);
  }
  Segment segment = Segment::open(std::move(memfd), members.size());
  segment.publish_affinity(members.index);

  LocalMessage ready;
  ready.type = LocalMessage::Type::ready;
  ready.rank = members.index;
  ready.nonce = segment.nonce();
  send_local(socket.get(), ready);
  expect(socket.get(), {LocalMessage::Type::go}, members, deadline, look);

  std::vector<LocalPeer> peers;
  const pid_t leader_pid = peer_credentials(socket.get()).pid;
  peers.push_back(LocalPeer{.rank = members.rank_at(0), .pid = leader_pid, .socket = std::move(socket)});
  return {.segment = std::move(segment), .peers = std::move(peers)};
}

}  // namespace

LocalMessage hello_of(const NodeMembers& members) {
  LocalMessage hello;
  hello.rank = members.index;
  hello.size = members.size();
  hello.nonce = static_cast<std::uint64_t>(members.start_ns);
  return hello;
}

std::string name_of(int rank, pid_t pid) {
  return fmt::format("rank {} (pid {})", rank, pid);
}

std::string absence_of(const std::vector<int>& ranks) {
  return fmt::format(
      "{} did not join the rendezvous in time: was every rank started, with the same run id, by the same "
      "user and in the same network namespace?",
      name_of_ranks(ranks));
}

std::string held_by_other_user(const NodeMembers& members, const LocalCredentials& holder) {
  return fmt::format("the rendezvous socket @{} is held by user {} (pid {}): give this run another --rdzv-id",
                     members.socket_name, holder.uid, holder.pid);
}

std::string local_socket_name(std::string_view run_id, std::string_view start, int node) {
  return fmt::format("lockstep-{}-{}-{}-{}", geteuid(), run_id, start, node);
}

NodeMembers all_on_one_node(const World& world) {
  NodeMembers members{
      .ranks = std::vector<int>(static_cast<std::size_t>(world.size)),
      .index = world.rank,
      .socket_name = local_socket_name(world.run_id, std::to_string(world.restart), world.node_rank),
      .run_id = world.run_id,
      .start_ns = world.start_ns};
  std::iota(members.ranks.begin(), members.ranks.end(), 0);
  return members;
}

LocalGroup open_local_group(const NodeMembers& members, Deadline deadline, const Look& look) {
  if (members.index == 0) return RendezvousLeader(members).gather(deadline, look);
  return join_as_peer(members, deadline, look);
}

}  // namespace lockstep::comm
