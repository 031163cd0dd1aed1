#include "launcher/endpoint.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::launcher {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList resolve(const std::string& address) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(address.c_str(), "0", &hints, &list);
  if (error != 0) throw UsageError(fmt::format("--master-addr {}: {}", address, gai_strerror(error)));
  return AddressList(list, &freeaddrinfo);
}

int bound_port(int socket) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

}  // namespace

int free_port(const std::string& address) {
  const AddressList list = resolve(address);
  const UniqueFd socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) throw DeviceError(fmt::format("no socket for a free port: {}", errno_message(errno)));
  // listen() on a socket whose bind failed takes a free port on all interfaces.
  if (::bind(socket.get(), list->ai_addr, list->ai_addrlen) != 0 && ::listen(socket.get(), 1) != 0) {
    throw DeviceError(
        fmt::format("no free port on {}: {}; give --master-port", address, errno_message(errno)));
  }
  return bound_port(socket.get());
}

}  // namespace lockstep::launcher
