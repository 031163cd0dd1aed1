#include "comm/tcp/link.h"

#include <sys/socket.h>

#include <algorithm>
#include <bit>

namespace lockstep::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "chunk headers are sent in memory layout");

constexpr std::size_t header_bytes = sizeof(ChunkHeader);

}  // namespace

void Link::post(const ChunkHeader& header, std::span<const std::byte> bytes) {
  outgoing_.push_back({.header = header, .bytes = bytes});
  outgoing_.back().header.bytes = static_cast<std::uint32_t>(bytes.size());
  if (header.kind == ChunkHeader::Kind::partial) ++partials_in_queue_;
}

bool Link::send_some() {
  while (!outgoing_.empty()) {
    Outgoing& chunk = outgoing_.front();
    const auto header = std::as_bytes(std::span(&chunk.header, 1));
    const std::size_t header_sent = std::min(chunk.sent, header_bytes);
    std::size_t sent = 0;
    const Transfer transfer =
        channel_.send_some(header.subspan(header_sent), chunk.bytes.subspan(chunk.sent - header_sent), sent);
    if (transfer != Transfer::some) return transfer == Transfer::nothing_yet;
    sent_bytes_ += sent;
    chunk.sent += sent;
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
    std::byte* const to = in_header() ? reinterpret_cast<std::byte*>(&incoming_) + received_
                                      : place_ + (received_ - header_bytes);
    std::size_t got = 0;
    const Transfer transfer = channel_.receive_some({to, bytes_missing()}, got);
    if (transfer != Transfer::some) return transfer == Transfer::nothing_yet;
    received_ += got;
  }
}

std::size_t Link::bytes_missing() const {
  return (in_header() ? 0 : incoming_.bytes) + header_bytes - received_;
}

void Link::gather_before_waking(std::size_t most, std::size_t least_chunk) noexcept {
  const std::size_t missing = bytes_missing() + (in_header() ? least_chunk : 0);
  const int bytes = static_cast<int>(std::min(channel_.least_to_come(missing), most));
  if (bytes == gathered_bytes_) return;
  gathered_bytes_ = bytes;
  setsockopt(fd(), SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

void Link::say_goodbye() noexcept {
  if (has_outgoing()) return;
  const ChunkHeader goodbye;
  std::size_t sent = 0;
  channel_.send_some(std::as_bytes(std::span(&goodbye, 1)), {}, sent);
}

}  // namespace lockstep::comm
