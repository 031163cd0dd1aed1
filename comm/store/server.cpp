#include "comm/store/server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "comm/store/tcp.h"
#include "kernels/base/deadline.h"
#include "kernels/base/error.h"
#include "kernels/base/signals_blocked.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t most_connections = 65536;

}  // namespace

StoreServer::StoreServer(const std::string& address, const std::vector<int>& ports, std::string run_id,
                         Seconds time_for_hello)
    : run_id_(std::move(run_id)), time_for_hello_(time_for_hello), stop_(eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) throw DeviceError(fmt::format("cannot open an eventfd: {}", std::strerror(errno)));
  for (const int port : ports) {
    listener_ = listen_tcp(address, port);
    if (listener_) break;
  }
  if (!listener_) {
    throw DeviceError(
        fmt::format("the store finds no free port on {}: {} {} taken; choose another MASTER_PORT", address,
                    fmt::join(ports, ", "), ports.size() == 1 ? "is" : "are"));
  }
  port_ = local_port(listener_.get());
  const SignalsBlocked scope;
  thread_ = std::thread(&StoreServer::serve, this);
}

StoreServer::~StoreServer() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void StoreServer::serve() {
  std::vector<pollfd> events;
  while (true) {
    const bool room = connections_.size() < most_connections;
    events.assign({{stop_.get(), POLLIN, 0}, {room ? listener_.get() : -1, POLLIN, 0}});
    for (const Connection& connection : connections_) {
      events.push_back({connection.fd(), connection.wanted_events(), 0});
    }
    if (poll(events.data(), events.size(), milliseconds_to_next_deadline()) < 0) continue;
    if (events[0].revents != 0) return;

    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (events[i + 2].revents != 0) connections_[i].serve(table_);
    }
    for (Connection& connection : connections_) {
      connection.serve_waiting(table_);
      connection.check_hello();
    }
    std::erase_if(connections_, [](const Connection& connection) { return !connection.is_open(); });
    if (events[1].revents != 0) {
      UniqueFd socket = accept_tcp(listener_.get());
      if (socket) connections_.emplace_back(std::move(socket), run_id_, time_for_hello_);
    }
  }
}

int StoreServer::milliseconds_to_next_deadline() const {
  Seconds least{3600};
  for (const Connection& connection : connections_) {
    if (const auto deadline = connection.next_deadline()) least = std::min(least, deadline->left());
  }
  return poll_milliseconds(least);
}

}  // namespace lockstep::comm
