#include "comm/tcp/link.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

namespace lockstep::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "chunk headers are sent in memory layout");

constexpr std::size_t header_bytes = sizeof(ChunkHeader);

bool try_again_later() {
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace

void Link::post(const ChunkHeader& header, std::span<const std::byte> bytes) {
  outgoing_.push_back({.header = header, .bytes = bytes});
  outgoing_.back().header.bytes = static_cast<std::uint32_t>(bytes.size());
  if (header.kind == ChunkHeader::Kind::partial) ++partials_in_queue_;
}

bool Link::send_some() {
  while (!outgoing_.empty()) {
    Outgoing& chunk = outgoing_.front();
    const std::size_t header_sent = std::min(chunk.sent, header_bytes);
    const std::size_t bytes_sent = chunk.sent - header_sent;
    std::array<iovec, 2> pieces{
        iovec{reinterpret_cast<std::byte*>(&chunk.header) + header_sent, header_bytes - header_sent},
        iovec{const_cast<std::byte*>(chunk.bytes.data()) + bytes_sent, chunk.bytes.size() - bytes_sent}};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return try_again_later();
    sent_bytes_ += static_cast<std::uint64_t>(sent);
    chunk.sent += static_cast<std::size_t>(sent);
    if (chunk.sent < header_bytes + chunk.bytes.size()) return true;
    if (chunk.header.kind == ChunkHeader::Kind::partial) --partials_in_queue_;
    outgoing_.pop_front();
  }
  return true;
}

bool Link::receive_some(const std::function<std::byte*(const ChunkHeader&)>& place,
                        const std::function<void(const ChunkHeader&)>& arrived) {
  while (true) {
    if (holds_early_chunk()) place_ = place(incoming_);
    if (holds_early_chunk()) return true;
    if (received_ >= header_bytes && received_ == header_bytes + incoming_.bytes) {
      received_ = 0;
      place_ = nullptr;
      arrived(incoming_);
    }
    const bool in_header = received_ < header_bytes;
    std::byte* const to = in_header ? reinterpret_cast<std::byte*>(&incoming_) + received_
                                    : place_ + (received_ - header_bytes);
    const ssize_t got = recv(socket_.get(), to, bytes_missing(), MSG_DONTWAIT);
    if (got < 0) return try_again_later();
    if (got == 0) return false;
    received_bytes_ += static_cast<std::uint64_t>(got);
    received_ += static_cast<std::size_t>(got);
  }
}

std::size_t Link::bytes_missing() const {
  return (received_ < header_bytes ? 0 : incoming_.bytes) + header_bytes - received_;
}

void Link::gather_before_waking(std::size_t most) noexcept {
  const int bytes = static_cast<int>(std::min(bytes_missing(), most));
  if (bytes == gathered_bytes_) return;
  gathered_bytes_ = bytes;
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

void Link::say_goodbye() noexcept {
  const ChunkHeader goodbye;
  send(socket_.get(), &goodbye, sizeof(goodbye), MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool Link::goodbye_is_next() const noexcept {
  ChunkHeader next{.kind = ChunkHeader::Kind::sum};
  const ssize_t seen = recv(socket_.get(), &next, sizeof(next), MSG_PEEK | MSG_DONTWAIT);
  return seen == static_cast<ssize_t>(sizeof(next)) && next.kind == ChunkHeader::Kind::goodbye;
}

}  // namespace lockstep::comm
