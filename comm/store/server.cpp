#include "comm/store/server.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "comm/net/addresses.h"
#include "comm/net/tcp.h"
#include "comm/polling.h"
#include "kernels/base/descriptors.h"
#include "kernels/base/error.h"
#include "kernels/base/signals.h"

namespace lockstep::comm {
namespace {

/// Each rank has three connections to the store: from 335 ranks on more than 1024, the usual soft limit. Some
/// hard limits are 10^9: no more than can be used.
constexpr std::size_t most_connections = 65536;

}  // namespace

UniqueFd listen_on_first(const std::string& address, const std::vector<int>& ports,
                         const std::function<void(int port)>& visit_other) {
  UniqueFd listener;
  for (const int port : ports) {
    const bool is_looking = !listener;
    if (is_looking) listener = listen_tcp(address, port);
    if (visit_other && !(is_looking && listener)) visit_other(port);
  }
  if (listener) return listener;
  throw DeviceError(fmt::format(
      "the store finds no free port on {}: {} {} taken; choose another MASTER_PORT or --port-range", address,
      name_of_ports(ports), ports.size() == 1 ? "is" : "are"));
}

StoreServer::StoreServer(UniqueFd listener, const Credentials& credentials, Seconds time_for_hello)
    : pending_(std::move(listener), credentials,
               {.name = "store",
                .accepts = {.purpose = std::string(store_purpose)},
                .time_for_hello = time_for_hello}),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  allow_descriptors(most_connections);
  if (!stop_) throw DeviceError(fmt::format("cannot open an eventfd: {}", errno_message(errno)));
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
    events.assign({{stop_.get(), POLLIN, 0}});
    for (const Connection& connection : connections_) {
      events.push_back({connection.fd(), connection.wanted_events(), 0});
    }
    const std::size_t first_pending = events.size();
    pending_.append_events(events, room);
    poll_until(events, Deadline::in(time_left()));
    if (events[0].revents != 0) return;

    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (events[i + 1].revents != 0) connections_[i].serve(table_);
    }
    for (Connection& connection : connections_) {
      if (connection.is_open()) connection.serve_waiting(table_);
    }
    drop_cut_off();
    drop_closed();
    admit_connections(std::span(events).subspan(first_pending));
  }
}

void StoreServer::admit_connections(std::span<const pollfd> events) {
  for (AuthenticatedConnection& connection : pending_.serve(events)) {
    connections_.emplace_back(std::move(connection.channel), std::move(connection.peer));
  }
  if (!pending_.came_without_secret().empty()) table_.put(without_secret_key, pending_.came_without_secret());
}

void StoreServer::drop_cut_off() {
  if (!next_link_check_.passed()) return;
  for (Connection& connection : connections_) {
    if (connection.is_open() && is_link_dead(connection.fd())) connection.lose(dead_link);
  }
  next_link_check_ = Deadline::in(time_between_link_checks);
}

void StoreServer::drop_closed() {
  for (Connection& connection : connections_) {
    if (connection.is_open()) continue;
    connection.release(table_);
    const bool lost = !connection.name().empty() && !connection.loss().empty();
    if (lost) disconnects_.report(connection.name(), connection.loss());
  }
  std::erase_if(connections_, [](const Connection& connection) { return !connection.is_open(); });
}

Seconds StoreServer::time_left() const {
  Seconds least = std::min(pending_.time_left(), next_link_check_.left());
  for (const Connection& connection : connections_) {
    if (const auto deadline = connection.next_deadline()) least = std::min(least, deadline->left());
  }
  return least;
}

void DisconnectLog::report(const std::string& name, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (handler_) return handler_(name, reason);
  unreported_.emplace_back(name, reason);
}

void DisconnectLog::set_handler(DisconnectHandler handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
  if (!handler_) return;
  for (const auto& [name, reason] : std::exchange(unreported_, {})) handler_(name, reason);
}

}  // namespace lockstep::comm
