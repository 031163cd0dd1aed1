#include "comm/shm/monitor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "comm/shm/local_socket.h"
#include "kernels/base/error.h"
#include "kernels/base/signals.h"

namespace lockstep::comm {
namespace {

/// Processes of this user that connect and say nothing; more of them wait in the kernel's queue.
constexpr std::size_t most_newcomers = 64;

}  // namespace

Monitor::Monitor(LocalGroup& group, const NodeMembers& members, std::function<void(const LocalPeer&)> on_lost)
    : members_(members),
      peers_(std::move(group.peers)),
      has_left_(peers_.size()),
      listener_(std::move(group.listener)),
      newcomers_(std::move(group.newcomers)),
      on_lost_(std::move(on_lost)),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) throw DeviceError(fmt::format("cannot open an eventfd: {}", errno_message(errno)));
  const SignalsBlocked scope;
  thread_ = std::thread(&Monitor::watch, this);
}

Monitor::~Monitor() {
  LocalMessage goodbye;
  goodbye.type = LocalMessage::Type::goodbye;
  for (const LocalPeer& peer : peers_) send_local(peer.socket.get(), goodbye);
  eventfd_write(stop_.get(), 1);
  thread_.join();
  LocalMessage leaving;
  leaving.type = LocalMessage::Type::leaving;
  if (listener_) {
    shutdown(listener_.get(), SHUT_RD);  // who comes later is refused, and tries again
    accept_newcomers();
  }
  for (const UniqueFd& newcomer : newcomers_) send_local(newcomer.get(), leaving);
}

void Monitor::watch() {
  std::vector<pollfd> events;
  while (true) {
    events.assign({{stop_.get(), POLLIN, 0}});
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      events.push_back({has_left_[i] ? -1 : peers_[i].socket.get(), POLLIN, 0});
    }
    for (const UniqueFd& newcomer : newcomers_) events.push_back({newcomer.get(), POLLIN, 0});
    const bool pauses = !pause_.is_over();
    const bool accepts = newcomers_.size() < most_newcomers && !pauses;
    events.push_back({accepts ? listener_.get() : -1, POLLIN, 0});
    const int milliseconds = pauses ? poll_milliseconds(pause_.left()) : -1;
    if (poll(events.data(), events.size(), milliseconds) < 0) continue;
    if (events[0].revents != 0) return;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (events[i + 1].revents != 0) has_left_[i] = !read_message(peers_[i]);
    }
    std::erase_if(newcomers_, [this](const UniqueFd& newcomer) { return answer_newcomer(newcomer.get()); });
    if (events.back().revents != 0) accept_newcomers();
  }
}

void Monitor::accept_newcomers() {
  while (newcomers_.size() < most_newcomers) {
    UniqueFd socket = accept_local(listener_.get());
    if (!socket && lacks_room_to_accept(errno)) pause_.begin();
    if (!socket) return;
    if (peer_credentials(socket.get()).uid == geteuid()) newcomers_.push_back(std::move(socket));
  }
}

bool Monitor::answer_newcomer(int socket) const {
  LocalMessage message;
  const Arrival arrival = receive_local(socket, message);
  if (arrival == Arrival::message && message.type == LocalMessage::Type::hello) {
    send_local(socket, answer_to(message));
  }
  return arrival != Arrival::nothing_yet;
}

LocalMessage Monitor::answer_to(const LocalMessage& hello) const {
  LocalMessage answer;
  answer.type = LocalMessage::Type::taken;
  if (hello.rank == 0 || !members_.has_index(hello.rank)) {
    answer.set_text(name_of(members_.rank(), getpid()));
    return answer;
  }
  const auto first = std::ranges::find(peers_, members_.rank_at(hello.rank), &LocalPeer::rank);
  const auto at = static_cast<std::size_t>(first - peers_.begin());
  if (at == peers_.size() || has_left_[at]) {
    answer.type = LocalMessage::Type::leaving;
  } else {
    answer.set_text(name_of(first->rank, first->pid));
  }
  return answer;
}

bool Monitor::read_message(const LocalPeer& peer) const {
  LocalMessage message;
  switch (receive_local(peer.socket.get(), message)) {
    case Arrival::nothing_yet:
      return true;
    case Arrival::message:
      return message.type != LocalMessage::Type::goodbye;
    case Arrival::malformed:
    case Arrival::closed:
      on_lost_(peer);
      return false;
  }
  return false;
}

}  // namespace lockstep::comm
