#include "comm/host/meeting_host.h"

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

MeetingHost::MeetingHost(const World& world, std::string socket_name)
    : world_(world),
      socket_name_(std::move(socket_name)),
      segment_(Segment::create(world.size, random_nonce())) {}

LocalGroup MeetingHost::gather(Deadline deadline) {
  const UniqueFd listener = listen_before(deadline);
  segment_.publish_affinity(world_.rank);
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
    peers.push_back(LocalPeer{.rank = guest.rank, .pid = guest.pid, .socket = std::move(guest.socket)});
  }
  return LocalGroup{std::move(segment_), std::move(peers)};
}

UniqueFd MeetingHost::listen_before(Deadline deadline) const {
  while (true) {
    UniqueFd listener = listen_local(socket_name_);
    if (listener) return listener;
    if (deadline.passed()) {
      throw CommError(
          fmt::format("the meeting socket @{} is taken: is another run with run id {} alive on this machine?",
                      socket_name_, world_.run_id));
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
        const int lost_rank = guest.rank;
        guest.socket.reset();
        if (lost_rank < 0) return;
        return give_up(
            fmt::format("rank {} (pid {}) closed its connection during the meeting", lost_rank, guest.pid));
      }
      case Arrival::message:
        break;
    }
    if (message.type == LocalMessage::Type::hello && guest.rank < 0) {
      answer_hello(guest, message);
    } else if (message.type == LocalMessage::Type::ready && guest.rank >= 0) {
      check_nonce(guest, message);
    } else {
      turn_away(guest, "unexpected message");
    }
  }
}

void MeetingHost::answer_hello(Guest& guest, const LocalMessage& hello) {
  if (hello.size != world_.size) {
    return give_up(fmt::format("rank {} (pid {}) counts {} ranks, rank 0 counts {}: start all ranks alike",
                               hello.rank, guest.pid, hello.size, world_.size));
  }
  const auto same_rank = [&](const Guest& other) { return other.rank == hello.rank; };
  const bool taken = std::any_of(guests_.begin(), guests_.end(), same_rank);
  if (hello.rank <= 0 || hello.rank >= world_.size || taken) {
    return turn_away(guest, fmt::format("rank {} is {}", hello.rank,
                                        taken || hello.rank == 0 ? "already taken" : "outside the world"));
  }
  guest.rank = hello.rank;
  LocalMessage welcome;
  welcome.type = LocalMessage::Type::welcome;
  send_local(guest.socket.get(), welcome, segment_.fd());
}

void MeetingHost::check_nonce(Guest& guest, const LocalMessage& ready) const {
  guest.ready = ready.nonce == segment_.nonce();
  if (!guest.ready) turn_away(guest, "the memory handed over is not the memory seen");
}

void MeetingHost::turn_away(Guest& guest, const std::string& reason) const {
  spdlog::warn("turned away pid {} at the meeting: {}", guest.pid, reason);
  LocalMessage refusal;
  refusal.type = LocalMessage::Type::refuse;
  refusal.set_text(fmt::format("rank 0 refused the meeting: {}", reason));
  send_local(guest.socket.get(), refusal);
  guest.rank = -1;
  guest.ready = false;
  guest.socket.reset();
}

bool MeetingHost::all_ready() const {
  const auto count =
      std::count_if(guests_.begin(), guests_.end(), [](const Guest& guest) { return guest.ready; });
  return count == world_.size - 1;
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
  for (int rank = 1; rank < world_.size; ++rank) {
    const auto is_it = [&](const Guest& guest) { return guest.rank == rank && guest.ready; };
    if (std::none_of(guests_.begin(), guests_.end(), is_it)) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace lockstep::comm
