#include "comm/shm/local_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "kernels/base/error.h"
#include "kernels/base/log.h"
#include "kernels/base/uninterrupted.h"

namespace lockstep::comm {
namespace {

struct Address {
  sockaddr_un storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// A leading zero byte makes the name abstract: no file, gone with its last owner.
Address abstract_address(const std::string& name) {
  Address address;
  address.storage.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(address.storage.sun_path) - 1);
  std::copy_n(name.data(), length, address.storage.sun_path + 1);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

UniqueFd make_socket() {
  UniqueFd socket_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd) throw DeviceError(fmt::format("cannot open a Unix socket: {}", errno_message(errno)));
  return socket_fd;
}

/// What a peer's end gives, which others report.
bool is_end(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

/// Keeps the first descriptor of a control message and closes any other.
void take_descriptors(msghdr& header, UniqueFd* passed_fd) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      UniqueFd owned(received);
      if (passed_fd != nullptr && !*passed_fd) *passed_fd = std::move(owned);
    }
  }
}

}  // namespace

void LocalMessage::set_text(std::string_view value) {
  const std::size_t length = std::min(value.size(), sizeof(text) - 1);
  std::copy_n(value.data(), length, text);
  text[length] = '\0';
}

UniqueFd listen_local(const std::string& name) {
  UniqueFd socket_fd = make_socket();
  const Address address = abstract_address(name);
  if (bind(socket_fd.get(), address.get(), address.length) != 0) {
    if (errno == EADDRINUSE) return {};
    throw DeviceError(fmt::format("cannot bind the Unix socket @{}: {}", name, errno_message(errno)));
  }
  if (listen(socket_fd.get(), SOMAXCONN) != 0) {
    throw DeviceError(fmt::format("cannot listen on the Unix socket @{}: {}", name, errno_message(errno)));
  }
  return socket_fd;
}

UniqueFd connect_local(const std::string& name) {
  UniqueFd socket_fd = make_socket();
  const Address address = abstract_address(name);
  if (connect(socket_fd.get(), address.get(), address.length) == 0) return socket_fd;
  if (errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR) return {};
  throw DeviceError(fmt::format("cannot connect to the Unix socket @{}: {}", name, errno_message(errno)));
}

UniqueFd accept_local(int listener) {
  return UniqueFd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

LocalCredentials peer_credentials(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    throw DeviceError(fmt::format("cannot tell who a local peer is: {}", errno_message(errno)));
  }
  return {peer.pid, peer.uid};
}

bool send_local(int socket, const LocalMessage& message, int passed_fd) noexcept {
  LocalMessage copy = message;
  iovec body{&copy, sizeof(copy)};
  msghdr header{};
  header.msg_iov = &body;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (passed_fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &passed_fd, sizeof(int));
  }
  const ssize_t sent = uninterrupted([&] { return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT); });
  if (sent == static_cast<ssize_t>(sizeof(copy))) return true;
  if (!is_end(errno))
    log::warn("a message to another rank of this node was not sent: {}", errno_message(errno));
  // Else the other end would wait until its deadline for what never comes.
  shutdown(socket, SHUT_RDWR);
  return false;
}

Arrival receive_local(int socket, LocalMessage& message, UniqueFd* passed_fd) {
  iovec body{&message, sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
  msghdr header{};
  header.msg_iov = &body;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const auto receive = [&] {
    return uninterrupted([&] { return recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC); });
  };
  ssize_t received = receive();
  // A peer that closes with our message unread shows as a reset, before the message that it sent last.
  if (received < 0 && errno == ECONNRESET) received = receive();
  if (received < 0 && errno == EAGAIN) return Arrival::nothing_yet;
  if (received < 0) {
    if (!is_end(errno))
      log::warn("a message of another rank of this node was not received: {}", errno_message(errno));
    return Arrival::closed;
  }
  take_descriptors(header, passed_fd);
  if (received == 0) return Arrival::closed;
  const bool whole = received == static_cast<ssize_t>(sizeof(message)) && (header.msg_flags & MSG_TRUNC) == 0;
  if (!whole || message.magic != LocalMessage::expected_magic ||
      message.version != LocalMessage::expected_version) {
    return Arrival::malformed;
  }
  message.text[sizeof(message.text) - 1] = '\0';
  return Arrival::message;
}

}  // namespace lockstep::comm
