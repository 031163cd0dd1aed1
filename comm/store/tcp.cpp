#include "comm/store/tcp.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "kernels/base/deadline.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

// An idle receiver does not notice a dead link; unacknowledged data for this long breaks the connection.
constexpr int user_timeout_ms = 10000;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList resolve(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) throw DeviceError(fmt::format("cannot resolve {}: {}", address, gai_strerror(error)));
  return {list, &freeaddrinfo};
}

UniqueFd make_socket(const addrinfo& address) {
  UniqueFd fd(
      socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
  if (!fd) throw DeviceError(fmt::format("cannot open a TCP socket: {}", std::strerror(errno)));
  return fd;
}

void set_up_connection(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof(user_timeout_ms));
}

bool is_connected(int fd) {
  int error = 0;
  socklen_t length = sizeof(error);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

}  // namespace

UniqueFd listen_tcp(const std::string& address, int port) {
  const AddressList list = resolve(address, port);
  UniqueFd fd = make_socket(*list);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd.get(), list->ai_addr, list->ai_addrlen) == 0 && listen(fd.get(), SOMAXCONN) == 0) return fd;
  if (errno == EADDRINUSE) return {};
  throw DeviceError(fmt::format("cannot listen on {}:{}: {}", address, port, std::strerror(errno)));
}

UniqueFd connect_tcp(const std::string& address, int port, Deadline deadline) {
  const AddressList list = resolve(address, port);
  for (const addrinfo* candidate = list.get(); candidate != nullptr; candidate = candidate->ai_next) {
    UniqueFd fd = make_socket(*candidate);
    const int result = connect(fd.get(), candidate->ai_addr, candidate->ai_addrlen);
    if (result != 0 && errno != EINPROGRESS) continue;
    if (!wait_for_socket(fd.get(), POLLOUT, deadline) || !is_connected(fd.get())) continue;
    set_up_connection(fd.get());
    return fd;
  }
  return {};
}

UniqueFd accept_tcp(int listener) {
  UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) set_up_connection(fd.get());
  return fd;
}

int local_port(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  // The port lies at the same place in IPv4's and IPv6's address.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

std::string peer_name(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "?";
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
  }
  return fmt::format("{}:{}", host, port);
}

Transfer receive_some(int socket, std::string& to) {
  char buffer[16384];
  const ssize_t received = recv(socket, buffer, sizeof(buffer), 0);
  if (received > 0) {
    to.append(buffer, static_cast<std::size_t>(received));
    return Transfer::some;
  }
  const bool later = received < 0 && (errno == EAGAIN || errno == EINTR);
  return later ? Transfer::nothing_yet : Transfer::closed;
}

Transfer send_some(int socket, std::string& from) {
  const ssize_t sent = send(socket, from.data(), from.size(), MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR ? Transfer::nothing_yet : Transfer::closed;
  from.erase(0, static_cast<std::size_t>(sent));
  return Transfer::some;
}

bool wait_for_socket(int socket, short events, Deadline deadline) {
  pollfd event{socket, events, 0};
  while (true) {
    if (poll(&event, 1, poll_milliseconds(deadline.left())) > 0) return true;
    if (deadline.passed()) return false;
  }
}

}  // namespace lockstep::comm
