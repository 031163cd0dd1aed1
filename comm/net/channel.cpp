#include "comm/net/channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

iovec piece(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

/// What recv and sendmsg return; `problem` when the connection broke.
Transfer outcome(ssize_t bytes, std::size_t& transferred, std::string& problem) {
  transferred = bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
  if (bytes > 0) return Transfer::some;
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return Transfer::nothing_yet;
  problem = bytes == 0 ? std::string() : errno_message(errno);
  return Transfer::closed;
}

}  // namespace

void Channel::close() {
  tls_.reset();
  socket_.reset();
}

Transfer Channel::receive_some(std::span<std::byte> to, std::size_t& received) {
  if (!tls_) return outcome(recv(fd(), to.data(), to.size(), MSG_DONTWAIT), received, problem_);
  const Transfer transfer = tls_->receive_some(to, received);
  if (transfer == Transfer::closed) problem_ = tls_->problem();
  return transfer;
}

Transfer Channel::receive_some(std::string& to, std::size_t most_bytes) {
  std::array<std::byte, TlsStream::most_record_bytes> buffer;
  std::size_t received = 0;
  const Transfer transfer =
      receive_some(std::span(buffer).first(std::min(most_bytes, buffer.size())), received);
  to.append(reinterpret_cast<const char*>(buffer.data()), received);
  return transfer;
}

Transfer Channel::send_some(std::span<const std::byte> first, std::span<const std::byte> rest,
                            std::size_t& sent) {
  if (!tls_) {
    std::array<iovec, 2> pieces{piece(first), piece(rest)};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    return outcome(sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT), sent, problem_);
  }
  const Transfer transfer = tls_->send_some(first, rest, sent);
  if (transfer == Transfer::closed) problem_ = tls_->problem();
  return transfer;
}

Transfer Channel::send_some(std::string_view& from) {
  std::size_t sent = 0;
  const Transfer transfer = send_some(std::as_bytes(std::span(from)), {}, sent);
  from.remove_prefix(sent);
  return transfer;
}

void Channel::read_ahead() {
  if (tls_) tls_->read_ahead();
}

std::size_t Channel::least_to_come(std::size_t bytes) const {
  // A part of the next record may have been read already.
  if (!tls_) return bytes;
  return bytes > TlsStream::most_wire_record_bytes ? bytes - TlsStream::most_wire_record_bytes : 1;
}

Transfer SendBuffer::send_some(Channel& channel) {
  std::string_view left = std::string_view(bytes_).substr(sent_);
  const Transfer transfer = channel.send_some(left);
  sent_ = bytes_.size() - left.size();
  if (left.empty()) {
    bytes_.clear();
    sent_ = 0;
  }
  return transfer;
}

}  // namespace lockstep::comm
