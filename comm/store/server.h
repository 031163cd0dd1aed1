#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/net/authenticated_listener.h"
#include "comm/net/credentials.h"
#include "comm/net/tcp.h"
#include "comm/store/connection.h"
#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// Called with what a client claimed and how its connection broke.
using DisconnectHandler = std::function<void(const std::string& name, const std::string& reason)>;

/// Keeps broken connections until a handler is set.
class DisconnectLog {
 public:
  void report(const std::string& name, const std::string& reason);
  /// Reports earlier losses at once. When this returns, no call of an earlier handler is under way.
  void set_handler(DisconnectHandler handler);

 private:
  std::mutex mutex_;
  DisconnectHandler handler_;
  std::vector<std::pair<std::string, std::string>> unreported_;
};

/// Listens on the first free one of some ports; 0 is any. All others are given to `visit_other`, those behind
/// it too, while nobody is served yet. DeviceError when all are taken.
UniqueFd listen_on_first(const std::string& address, const std::vector<int>& ports,
                         const std::function<void(int port)>& visit_other = {});

/// The run's key-value store: serves on a thread of its own, on the host of rank 0. Connections without a
/// handshake or with a malformed request are closed and logged.
class StoreServer {
 public:
  /// A connection without a handshake within `time_for_hello` is closed.
  StoreServer(UniqueFd listener, const Credentials& credentials, Seconds time_for_hello = Seconds(5));
  /// On the first free port, as listen_on_first does.
  StoreServer(const std::string& address, const std::vector<int>& ports, const Credentials& credentials,
              Seconds time_for_hello = Seconds(5))
      : StoreServer(listen_on_first(address, ports), credentials, time_for_hello) {}
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const { return pending_.port(); }

  /// From now on `handler` is called, on the server's thread, when the connection of a client that has
  /// claimed a key breaks without a goodbye; at once for those that broke before. It must not wait for the
  /// store. An empty handler: no more calls, and none is under way when this returns.
  void on_lost(DisconnectHandler handler) { disconnects_.set_handler(std::move(handler)); }

 private:
  void serve();
  void admit_connections(std::span<const pollfd> events);
  /// A dead link with a reply on its way shows to nobody else.
  void drop_cut_off();
  void drop_closed();
  Seconds time_left() const;

  PendingConnections pending_;
  UniqueFd stop_;
  Table table_;
  std::vector<Connection> connections_;
  DisconnectLog disconnects_;
  Deadline next_link_check_ = Deadline::in(time_between_link_checks);
  std::thread thread_;
};

}  // namespace lockstep::comm
