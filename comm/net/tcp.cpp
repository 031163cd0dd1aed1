#include "comm/net/tcp.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <future>
#include <span>
#include <thread>
#include <utility>

#include "comm/polling.h"
#include "kernels/base/error.h"
#include "kernels/base/signals.h"

namespace lockstep::comm {
namespace {

constexpr Seconds time_to_resolve_own_name{5};
constexpr int idle_seconds = 1;  // before the first probe of a silent peer
constexpr int seconds_between_probes = 1;
constexpr int lost_probes = 3;  // so many unanswered ones break the connection
constexpr unsigned dead_link_ms = 3000;

Resolution look_up(const std::string& address, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list);
  Resolution found{std::unique_ptr<addrinfo, FreeAddressList>(list), {}};
  if (error != 0) found.problem = fmt::format("cannot resolve {}: {}", address, gai_strerror(error));
  return found;
}

/// Empty when the kernel lacks the address's family, as with ipv6.disable=1.
UniqueFd make_socket(const addrinfo& address) {
  UniqueFd fd(
      socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
  if (!fd && errno != EAFNOSUPPORT)
    throw DeviceError(fmt::format("cannot open a TCP socket: {}", errno_message(errno)));
  return fd;
}

void set_up_connection(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof(idle_seconds));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds_between_probes, sizeof(seconds_between_probes));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &lost_probes, sizeof(lost_probes));
}

/// 0 when the socket is connected.
int connection_error(int fd) {
  int error = 0;
  socklen_t length = sizeof(error);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

/// 0 when it is connected by the deadline.
int connect_by(int fd, const addrinfo& address, Deadline deadline) {
  if (connect(fd, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  return wait_for_socket(fd, POLLOUT, deadline) ? connection_error(fd) : ETIMEDOUT;
}

/// Zeros for what is no TCP connection.
tcp_info connection_info(int fd) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 ? info : tcp_info{};
}

std::string numeric_host(const sockaddr_storage& address, socklen_t length) {
  char host[NI_MAXHOST] = "?";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof(host), nullptr, 0,
              NI_NUMERICHOST);
  return host;
}

// IPv4's and IPv6's address have the port at the same offset.
int port_in(const sockaddr_storage& address) {
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

Resolution resolve(const std::string& address, int port, Deadline deadline) {
  Resolution numeric = look_up(address, port, AI_NUMERICHOST);
  if (numeric.list) return numeric;
  // getaddrinfo knows no deadline: on a thread of its own it may outlive the call.
  std::packaged_task<Resolution()> task([address, port] { return look_up(address, port, 0); });
  std::future<Resolution> answer = task.get_future();
  {
    const SignalsBlocked scope;
    std::thread(std::move(task)).detach();
  }
  if (answer.wait_until(deadline.when()) == std::future_status::ready) return answer.get();
  return {nullptr, fmt::format("cannot resolve {}: the name servers do not answer", address)};
}

UniqueFd listen_tcp(const std::string& address, int port) {
  const Resolution found = resolve(address, port, Deadline::in(time_to_resolve_own_name));
  if (!found.list) throw DeviceError(found.problem);
  int error = 0;
  for (const addrinfo* candidate = found.list.get(); candidate != nullptr; candidate = candidate->ai_next) {
    UniqueFd fd = make_socket(*candidate);
    if (!fd) {
      if (error == 0) error = EAFNOSUPPORT;
      continue;
    }
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd.get(), candidate->ai_addr, candidate->ai_addrlen) == 0 && listen(fd.get(), SOMAXCONN) == 0) {
      return fd;
    }
    error = errno;
  }
  if (error == EADDRINUSE) return {};
  throw DeviceError(fmt::format("cannot listen on {}: {}; is this machine's address another?",
                                endpoint_name(address, port), errno_message(error)));
}

UniqueFd listen_in_range(const std::string& address, int first, int last) {
  for (int port = first; port <= last; ++port) {
    UniqueFd listener = listen_tcp(address, port);
    if (listener) return listener;
  }
  throw DeviceError(fmt::format("all ports from {} to {} are taken on {}: give a wider --port-range", first,
                                last, address));
}

UniqueFd connect_tcp(const std::string& address, int port, Deadline deadline, std::string& obstacle) {
  const Resolution found = resolve(address, port, deadline);
  obstacle = found.problem;
  int candidates_left = 0;
  for (const addrinfo* one = found.list.get(); one != nullptr; one = one->ai_next) ++candidates_left;
  for (const addrinfo* candidate = found.list.get(); candidate != nullptr; candidate = candidate->ai_next) {
    const Deadline own_deadline = Deadline::in(deadline.left() / candidates_left--);
    UniqueFd fd = make_socket(*candidate);
    const int error = fd ? connect_by(fd.get(), *candidate, own_deadline) : EAFNOSUPPORT;
    if (error == 0) {
      set_up_connection(fd.get());
      return fd;
    }
    // What another address met tells more than a family that the kernel lacks.
    if (!fd && !obstacle.empty()) continue;
    obstacle = error == ECONNREFUSED ? "nothing listens there" : errno_message(error);
  }
  return {};
}

UniqueFd accept_tcp(int listener, PeerAddress& peer) {
  socklen_t length = sizeof(peer.address_);
  UniqueFd fd(
      accept4(listener, reinterpret_cast<sockaddr*>(&peer.address_), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) set_up_connection(fd.get());
  return fd;
}

UniqueFd accept_tcp(int listener) {
  PeerAddress peer;
  return accept_tcp(listener, peer);
}

void limit_sending(int socket, double bytes_per_s) {
  const auto rate = static_cast<std::uint64_t>(bytes_per_s);
  setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
}

std::string PeerAddress::name() const {
  return endpoint_name(numeric_host(address_, sizeof(address_)), port_in(address_));
}

std::string PeerAddress::network() const {
  constexpr std::size_t network_bytes = 8;
  if (address_.ss_family == AF_INET) {
    const in_addr& host = reinterpret_cast<const sockaddr_in*>(&address_)->sin_addr;
    return {reinterpret_cast<const char*>(&host), sizeof(host)};
  }
  const in6_addr& host = reinterpret_cast<const sockaddr_in6*>(&address_)->sin6_addr;
  return {reinterpret_cast<const char*>(&host), network_bytes};
}

bool is_link_dead(int socket) {
  const tcp_info info = connection_info(socket);
  // Sent again after 0.2 s, 0.4 s more, 0.8 s and 1.6 s more: the fourth time is 3 s after the first sending.
  constexpr unsigned repeats_in_3_s = 4;
  const bool is_sent_again = info.tcpi_unacked > 0 && info.tcpi_retransmits >= repeats_in_3_s;
  const bool is_probed_again = info.tcpi_probes >= repeats_in_3_s;  // its window was closed
  return (is_sent_again || is_probed_again) && info.tcpi_last_ack_recv >= dead_link_ms;
}

bool is_cut_off(int socket) {
  pollfd event{socket, POLLRDHUP, 0};
  if (socket < 0 || (poll(&event, 1, 0) > 0 && event.revents != 0)) return true;
  // Keep-alive asks an idle peer once a second.
  constexpr unsigned two_answers_missed_ms = 2500;
  return connection_info(socket).tcpi_last_ack_recv >= two_answers_missed_ms;
}

int local_port(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  return port_in(address);
}

std::string local_address(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  return numeric_host(address, length);
}

std::string endpoint_name(const std::string& address, int port) {
  const bool is_ipv6 = address.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

Transfer receive_some(int socket, std::string& to, std::size_t most_bytes) {
  char buffer[16384];
  const ssize_t received = recv(socket, buffer, std::min(most_bytes, sizeof(buffer)), 0);
  if (received > 0) {
    to.append(buffer, static_cast<std::size_t>(received));
    return Transfer::some;
  }
  if (received == 0) errno = 0;
  const bool later = received < 0 && (errno == EAGAIN || errno == EINTR);
  return later ? Transfer::nothing_yet : Transfer::closed;
}

Transfer send_some(int socket, std::string_view& from) {
  const ssize_t sent = send(socket, from.data(), from.size(), MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR ? Transfer::nothing_yet : Transfer::closed;
  from.remove_prefix(static_cast<std::size_t>(sent));
  return Transfer::some;
}

bool wait_for_socket(int socket, short events, Deadline deadline) {
  pollfd event{socket, events, 0};
  return poll_until(std::span(&event, 1), deadline);
}

}  // namespace lockstep::comm
