#include "comm/shm/rendezvous_leader.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "kernels/base/deadline.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"

namespace lockstep::comm {
namespace {

std::uint64_t random_nonce() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

MeetingHost::MeetingHost(const NodeMembers& members)
    : members_(members), segment_(Segment::create(members.size(), random_nonce())) {}

LocalGroup MeetingHost::gather(Deadline deadline) {
  const UniqueFd listener = listen_before(deadline);
  segment_.publish_affinity(members_.index);
  while (!all_ready()) {
    if (deadline.passed())
      give_up(fmt::format("{} did not come to the meeting in time", name_of_ranks(missing())));
    wait_for_events(listener.get(), deadline);
    admit_waiting(listener.get());
    for (Guest& guest : guests_) hear(guest);
    std::erase_if(guests_, [](const Guest& guest) { return !guest.socket; });
  }

  LocalMessage go;
  go.type = LocalMessage::Type::go;
  std::vector<LocalPeer> peers;
  for (Guest& guest : guests_) {
    if (!guest.ready) continue;
    send_local(guest.socket.get(), go);  // who died meanwhile is noticed by the monitor
    peers.push_back(LocalPeer{
        .rank = members_.rank_at(guest.index), .pid = guest.pid, .socket = std::move(guest.socket)});
  }
  return LocalGroup{std::move(segment_), std::move(peers)};
}

UniqueFd MeetingHost::listen_before(Deadline deadline) const {
  while (true) {
    UniqueFd listener = listen_local(members_.meeting);
    if (listener) return listener;
    if (deadline.passed()) {
      throw CommError(fmt::format(
          "the meeting socket @{} is taken: is another run with this run id alive on this machine?",
          members_.meeting));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void MeetingHost::wait_for_events(int listener, Deadline deadline) const {
  std::vector<pollfd> events{{listener, POLLIN, 0}};
  for (const Guest& guest : guests_) events.push_back({guest.socket.get(), POLLIN, 0});
  poll(events.data(), events.size(), poll_milliseconds(deadline.left()));
}

void MeetingHost::admit_waiting(int listener) {
  while (true) {
    Guest guest{.socket = UniqueFd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK))};
    if (!guest.socket) return;
    const LocalCredentials who = peer_credentials(guest.socket.get());
    guest.pid = who.pid;
    if (who.uid == geteuid()) {
      guests_.push_back(std::move(guest));
    } else {
      spdlog::warn("turned away user {} (pid {}) at the meeting socket", who.uid, who.pid);
    }
  }
}

void MeetingHost::hear(Guest& guest) {
  LocalMessage message;
  while (guest.socket) {
    switch (receive_local(guest.socket.get(), message)) {
      case Arrival::nothing_yet:
        return;
      case Arrival::malformed:
        return turn_away(guest, "malformed message: do all ranks run the same version?");
      case Arrival::closed: {
        guest.socket.reset();
        if (guest.index < 0) return;
        return give_up(fmt::format("{} closed its connection during the meeting", name_of(guest)));
      }
      case Arrival::message:
        break;
    }
    if (message.type == LocalMessage::Type::hello && guest.index < 0) {
      answer_hello(guest, message);
    } else if (message.type == LocalMessage::Type::ready && guest.index >= 0) {
      check_nonce(guest, message);
    } else {
      turn_away(guest, "unexpected message");
    }
  }
}

void MeetingHost::answer_hello(Guest& guest, const LocalMessage& hello) {
  if (hello.size != members_.size()) {
    const bool known = hello.rank >= 0 && hello.rank < members_.size();
    return give_up(
        fmt::format("rank {} (pid {}) counts {} ranks on this node, rank {} counts {}: start all alike",
                    known ? members_.rank_at(hello.rank) : hello.rank, guest.pid, hello.size, members_.rank(),
                    members_.size()));
  }
  const auto same_place = [&](const Guest& other) { return other.index == hello.rank; };
  const bool taken = std::any_of(guests_.begin(), guests_.end(), same_place);
  if (hello.rank <= 0 || hello.rank >= members_.size() || taken) {
    return turn_away(
        guest, taken || hello.rank == 0 ? "its rank is already taken" : "its rank is outside the world");
  }
  guest.index = hello.rank;
  LocalMessage welcome;
  welcome.type = LocalMessage::Type::welcome;
  send_local(guest.socket.get(), welcome, segment_.fd());
}

std::string MeetingHost::name_of(const Guest& guest) const {
  return fmt::format("rank {} (pid {})", members_.rank_at(guest.index), guest.pid);
}

void MeetingHost::check_nonce(Guest& guest, const LocalMessage& ready) const {
  guest.ready = ready.nonce == segment_.nonce();
  if (!guest.ready) turn_away(guest, "the memory handed over is not the memory seen");
}

void MeetingHost::turn_away(Guest& guest, const std::string& reason) const {
  spdlog::warn("turned away pid {} at the meeting: {}", guest.pid, reason);
  LocalMessage refusal;
  refusal.type = LocalMessage::Type::refuse;
  refusal.set_text(fmt::format("rank {} refused the meeting: {}", members_.rank(), reason));
  send_local(guest.socket.get(), refusal);
  guest.index = -1;
  guest.ready = false;
  guest.socket.reset();
}

bool MeetingHost::all_ready() const {
  const auto count =
      std::count_if(guests_.begin(), guests_.end(), [](const Guest& guest) { return guest.ready; });
  return count == members_.size() - 1;
}

void MeetingHost::give_up(const std::string& reason) {
  LocalMessage refusal;
  refusal.type = LocalMessage::Type::refuse;
  refusal.set_text(reason);
  for (const Guest& guest : guests_) {
    if (guest.socket) send_local(guest.socket.get(), refusal);
  }
  throw CommError(reason);
}

std::vector<int> MeetingHost::missing() const {
  std::vector<int> ranks;
  for (int index = 1; index < members_.size(); ++index) {
    const auto is_it = [&](const Guest& guest) { return guest.index == index && guest.ready; };
    if (std::none_of(guests_.begin(), guests_.end(), is_it)) ranks.push_back(members_.rank_at(index));
  }
  return ranks;
}

}  // namespace lockstep::comm
