// What a data connection brings: headers and chunks, which go where an all-reduce of two ranges expects them.
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "comm/net/tcp.h"
#include "comm/tcp/chunks.h"
#include "comm/tcp/link.h"

using namespace lockstep;
using namespace lockstep::comm;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return 0;
  Link link(1, Channel(UniqueFd(ends[0])));
  UniqueFd peer(ends[1]);
  std::string_view said(reinterpret_cast<const char*>(data), size);
  send_some(peer.get(), said);
  shutdown(peer.get(), SHUT_WR);

  constexpr std::size_t chunks = 2;
  constexpr std::size_t most_bytes = 64;
  ChunkOrder order(2, chunks, chunks);
  std::vector<std::byte> memory;
  std::size_t due = 0;
  const auto place = [&](const ChunkHeader& header) -> std::byte* {
    if (header.kind == ChunkHeader::Kind::goodbye || !order.is_next(header) || header.bytes > most_bytes) {
      static_cast<void>(order.describe(header));
      return nullptr;
    }
    memory.assign(std::max<std::size_t>(header.bytes, 1), std::byte{});
    ++due;
    return memory.data();
  };
  const auto arrived = [&](const ChunkHeader& header) {
    if (!order.is_next(header) || header.bytes > most_bytes || due != 1) std::abort();
    --due;
    order.count(header);
  };
  while (link.receive_some(place, arrived) && !link.holds_early_chunk())
    link.gather_before_waking(1 << 17, 0);
  return 0;
}
