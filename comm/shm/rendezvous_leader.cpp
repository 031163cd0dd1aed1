#include "comm/shm/rendezvous_leader.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <random>
#include <utility>

#include "comm/polling.h"
#include "kernels/base/deadline.h"
#include "kernels/base/descriptors.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"

namespace lockstep::comm {
namespace {

constexpr Seconds time_to_answer{5};

std::uint64_t random_nonce() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

RendezvousLeader::RendezvousLeader(const NodeMembers& members)
    : members_(members), segment_(Segment::create(members.size(), random_nonce())) {}

LocalGroup RendezvousLeader::gather(Deadline deadline, const Look& look) {
  UniqueFd listener = listen_before(deadline, look);
  segment_.publish_affinity(members_.index);
  while (!all_ready()) {
    if (deadline.passed()) give_up(absence_of(missing()));
    wait_for_events(listener.get(), deadline, look);
    admit_waiting(listener.get());
    for (Peer& peer : peers_) read_messages(peer);
    std::erase_if(peers_, [](const Peer& peer) { return !peer.socket; });
  }

  LocalMessage go;
  go.type = LocalMessage::Type::go;
  std::vector<LocalPeer> peers;
  std::vector<UniqueFd> newcomers;
  for (Peer& peer : peers_) {
    if (!peer.ready) {
      newcomers.push_back(std::move(peer.socket));
      continue;
    }
    send_local(peer.socket.get(), go);  // the monitor notices a peer that died meanwhile
    peers.push_back(
        LocalPeer{.rank = members_.rank_at(peer.index), .pid = peer.pid, .socket = std::move(peer.socket)});
  }
  return {.segment = std::move(segment_),
          .peers = std::move(peers),
          .listener = std::move(listener),
          .newcomers = std::move(newcomers)};
}

UniqueFd RendezvousLeader::listen_before(Deadline deadline, const Look& look) const {
  using namespace std::chrono_literals;
  Backoff backoff({.eager = 0us, .first = 5ms, .longest = 5ms});
  bool has_warned = false;
  while (true) {
    UniqueFd listener = listen_local(members_.socket_name);
    if (listener) return listener;
    if (const auto other_user = ask_holder(deadline)) {
      const std::string held = held_by_other_user(members_, *other_user);
      if (deadline.passed()) throw CommError(held);
      if (!std::exchange(has_warned, true)) log::warn("{}; trying on", held);
    }
    if (deadline.passed()) {
      throw CommError(fmt::format(
          "the rendezvous socket @{} is taken: is another run with this run id alive on this machine?",
          members_.socket_name));
    }
    if (look) look();
    backoff.pause();
  }
}

std::optional<LocalCredentials> RendezvousLeader::ask_holder(Deadline deadline) const {
  const UniqueFd socket = connect_local(members_.socket_name);
  if (!socket) return std::nullopt;
  const LocalCredentials holder = peer_credentials(socket.get());
  if (holder.uid != geteuid()) return holder;
  if (!send_local(socket.get(), hello_of(members_))) return std::nullopt;
  pollfd event{socket.get(), POLLIN, 0};
  const bool answers =
      poll_until(std::span(&event, 1), Deadline::in(std::min(deadline.left(), time_to_answer)));
  LocalMessage answer;
  const bool has_message = answers && receive_local(socket.get(), answer) == Arrival::message;
  if (has_message && answer.type == LocalMessage::Type::taken) {
    throw second_start(members_.run_id, answer.text);
  }
  if (!answers) {
    throw second_start(members_.run_id,
                       comm::name_of(members_.rank(), holder.pid) + ", which does not answer");
  }
  return std::nullopt;
}

void RendezvousLeader::wait_for_events(int listener, Deadline deadline, const Look& look) const {
  std::vector<pollfd> events{{listener, POLLIN, 0}};
  for (const Peer& peer : peers_) events.push_back({peer.socket.get(), POLLIN, 0});
  try {
    poll_and_look(events, deadline, look);
  } catch (const CommError& error) {
    give_up(error.what());
  }
}

void RendezvousLeader::admit_waiting(int listener) {
  while (true) {
    Peer peer{.socket = accept_local(listener)};
    if (!peer.socket && lacks_room_to_accept(errno)) {
      const std::string reason = fmt::format("rank {} cannot take a connection at the rendezvous: {}",
                                             members_.rank(), obstacle_to_open(errno));
      refuse_all(reason);
      throw DeviceError(reason);
    }
    if (!peer.socket) return;
    const LocalCredentials user = peer_credentials(peer.socket.get());
    peer.pid = user.pid;
    if (user.uid == geteuid()) {
      peers_.push_back(std::move(peer));
    } else {
      log::warn("rejected user {} (pid {}) at the rendezvous socket", user.uid, user.pid);
    }
  }
}

void RendezvousLeader::read_messages(Peer& peer) {
  LocalMessage message;
  while (peer.socket) {
    switch (receive_local(peer.socket.get(), message)) {
      case Arrival::nothing_yet:
        return;
      case Arrival::malformed:
        return reject(peer, "malformed message: do all ranks run the same version?");
      case Arrival::closed: {
        peer.socket.reset();
        if (peer.index < 0) return;
        return give_up(fmt::format("the connection to {} ended during the rendezvous", name_of(peer)));
      }
      case Arrival::message:
        break;
    }
    if (message.type == LocalMessage::Type::hello && peer.index < 0) {
      answer_hello(peer, message);
    } else if (message.type == LocalMessage::Type::ready && peer.index >= 0) {
      check_nonce(peer, message);
    } else {
      reject(peer, "unexpected message");
    }
  }
}

void RendezvousLeader::answer_hello(Peer& peer, const LocalMessage& hello) {
  const auto first = std::ranges::find(peers_, hello.rank, &Peer::index);
  const bool is_other_start = hello.nonce != hello_of(members_).nonce;
  if (hello.rank == 0 || is_other_start) {
    return refuse_second_start(peer, comm::name_of(members_.rank(), getpid()));
  }
  if (hello.rank > 0 && first != peers_.end()) return refuse_second_start(peer, name_of(*first));
  if (hello.size != members_.size()) {
    const bool known = members_.has_index(hello.rank);
    return give_up(
        fmt::format("rank {} (pid {}) counts {} ranks on this node, rank {} counts {}: start all alike",
                    known ? members_.rank_at(hello.rank) : hello.rank, peer.pid, hello.size, members_.rank(),
                    members_.size()));
  }
  if (!members_.has_index(hello.rank)) return reject(peer, "its rank is outside the world");
  peer.index = hello.rank;
  LocalMessage welcome;
  welcome.type = LocalMessage::Type::welcome;
  send_local(peer.socket.get(), welcome, segment_.fd());
}

std::string RendezvousLeader::name_of(const Peer& peer) const {
  return comm::name_of(members_.rank_at(peer.index), peer.pid);
}

void RendezvousLeader::check_nonce(Peer& peer, const LocalMessage& ready) const {
  peer.ready = ready.nonce == segment_.nonce();
  if (!peer.ready) reject(peer, "the memory handed over is not the memory seen");
}

void RendezvousLeader::reject(Peer& peer, const std::string& reason) const {
  log::warn("rejected pid {} at the rendezvous: {}", peer.pid, reason);
  LocalMessage refusal;
  refusal.type = LocalMessage::Type::refuse;
  refusal.set_text(fmt::format("rank {} refused the rendezvous: {}", members_.rank(), reason));
  send_local(peer.socket.get(), refusal);
  peer.index = -1;
  peer.ready = false;
  peer.socket.reset();
}

void RendezvousLeader::refuse_second_start(Peer& peer, const std::string& first) {
  LocalMessage refusal;
  refusal.type = LocalMessage::Type::taken;
  refusal.set_text(first);
  send_local(peer.socket.get(), refusal);
  peer.socket.reset();
}

bool RendezvousLeader::all_ready() const {
  const auto count = std::count_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.ready; });
  return count == members_.size() - 1;
}

void RendezvousLeader::give_up(const std::string& reason) const {
  refuse_all(reason);
  throw CommError(reason);
}

void RendezvousLeader::refuse_all(const std::string& reason) const {
  LocalMessage refusal;
  refusal.type = LocalMessage::Type::refuse;
  refusal.set_text(reason);
  for (const Peer& peer : peers_) {
    if (peer.socket) send_local(peer.socket.get(), refusal);
  }
}

std::vector<int> RendezvousLeader::missing() const {
  std::vector<int> ranks;
  for (int index = 1; index < members_.size(); ++index) {
    const auto is_it = [&](const Peer& peer) { return peer.index == index && peer.ready; };
    if (std::none_of(peers_.begin(), peers_.end(), is_it)) ranks.push_back(members_.rank_at(index));
  }
  return ranks;
}

}  // namespace lockstep::comm
