// Datagrams of the local rendezvous, with up to five descriptors.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "comm/shm/local_socket.h"

using namespace lockstep;
using namespace lockstep::comm;

namespace {

constexpr std::size_t most_descriptors = 5;

void send_bytes(int socket, const std::uint8_t* data, std::size_t size, std::size_t descriptors) {
  iovec body{const_cast<std::uint8_t*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(most_descriptors * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &body;
  header.msg_iovlen = 1;
  if (descriptors > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    for (std::size_t i = 0; i < descriptors; ++i) {
      std::memcpy(CMSG_DATA(part) + i * sizeof(int), &socket, sizeof(int));
    }
  }
  sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// The lowest free one: a descriptor that stays open moves it.
int next_descriptor() {
  return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)).get();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const int first_free = next_descriptor();
  {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return 0;
    const UniqueFd sender(ends[0]);
    const UniqueFd receiver(ends[1]);
    send_bytes(sender.get(), data + 1, size - 1, data[0] % (most_descriptors + 1));
    LocalMessage message;
    UniqueFd passed;
    const Arrival arrival = receive_local(receiver.get(), message, data[0] >= 128 ? &passed : nullptr);
    const bool ends_in_time = std::memchr(message.text, 0, sizeof(message.text)) != nullptr;
    if (arrival == Arrival::message && (!ends_in_time || size - 1 != sizeof(message))) std::abort();
    if (arrival == Arrival::nothing_yet) std::abort();
  }
  if (next_descriptor() != first_free) std::abort();
  return 0;
}
