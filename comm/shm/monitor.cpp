#include "comm/shm/monitor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "comm/shm/local_socket.h"
#include "kernels/base/error.h"
#include "kernels/base/signals.h"

namespace lockstep::comm {

Monitor::Monitor(std::vector<LocalPeer> peers, std::function<void(const LocalPeer&)> on_lost)
    : peers_(std::move(peers)), on_lost_(std::move(on_lost)), stop_(eventfd(0, EFD_CLOEXEC)) {
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
}

void Monitor::watch() {
  std::vector<pollfd> events{{stop_.get(), POLLIN, 0}};
  for (const LocalPeer& peer : peers_) events.push_back({peer.socket.get(), POLLIN, 0});
  while (true) {
    if (poll(events.data(), events.size(), -1) < 0) continue;
    if (events[0].revents != 0) return;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      pollfd& event = events[i + 1];
      if (event.revents != 0 && !read_message(peers_[i])) event.fd = -1;
    }
  }
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
