#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>

#include "comm/net/channel.h"

namespace lockstep::comm {

/// What travels before each chunk on a data connection; little endian, both ends check it.
struct ChunkHeader {
  enum class Kind : std::uint32_t {
    partial =
        0x4C4B5031,    ///< a partial sum of the receiver's shard: `part` tells of which subtree of the sender
    sum = 0x4C4B5331,  ///< the sender's shard, as all get it
    goodbye = 0x4C4B4731,  ///< nothing follows: the sender leaves in order
  };
  Kind kind = Kind::goodbye;
  std::uint32_t call = 0;       ///< number of the collective
  std::uint32_t signature = 0;  ///< of the collective: kind and ranges are the same on all ranks
  std::uint16_t part = 0;
  std::uint16_t chunk = 0;
  std::uint32_t bytes = 0;
};
static_assert(sizeof(ChunkHeader) == 20);

/// A data connection to another rank, with chunks on their way out and one on its way in. Nothing waits, and
/// the bytes are sent from and received into the caller's memory.
class Link {
 public:
  Link(int rank, Channel channel) : rank_(rank), channel_(std::move(channel)) { channel_.read_ahead(); }

  int rank() const { return rank_; }
  int fd() const { return channel_.fd(); }
  /// After its loss: what broke it; empty when the peer closed it.
  const std::string& problem() const { return channel_.problem(); }

  /// `bytes` stay untouched until they are sent. Host memory.
  void post(const ChunkHeader& header, std::span<const std::byte> bytes);
  bool has_outgoing() const { return !outgoing_.empty(); }
  /// Of the kind `partial`.
  int partials_in_queue() const { return partials_in_queue_; }
  /// Sends as far as the socket takes it. False when the connection is lost.
  bool send_some();

  /// Receives as far as there is something. `place` tells where a chunk's bytes go (as many as its header
  /// says), or nullptr while it is too early for them; `arrived` is called when they are there. False when
  /// the connection is lost.
  bool receive_some(const std::function<std::byte*(const ChunkHeader&)>& place,
                    const std::function<void(const ChunkHeader&)>& arrived);

  /// A chunk was too early: nothing is received before `place` takes it.
  bool holds_early_chunk() const { return received_ == sizeof(ChunkHeader) && place_ == nullptr; }

  /// Before a wait: the kernel wakes the waiter when `most` bytes are there, or the rest of the chunk that
  /// comes, whichever is less. Before its header is here it is known to have `least_chunk` bytes.
  void gather_before_waking(std::size_t most, std::size_t least_chunk) noexcept;

  /// Sends a goodbye, after which nothing follows; never waits. Nothing while chunks are on their way out:
  /// then the peer sees the connection break off.
  void say_goodbye() noexcept;

  /// Of headers and chunks; for tests.
  std::uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Outgoing {
    ChunkHeader header;
    std::span<const std::byte> bytes;
    std::size_t sent = 0;  ///< of header and bytes together
  };

  /// Of the incoming header, or of header and bytes once these are known.
  std::size_t bytes_missing() const;
  bool in_header() const { return received_ < sizeof(ChunkHeader); }

  int rank_;
  Channel channel_;
  std::deque<Outgoing> outgoing_;
  int partials_in_queue_ = 0;
  ChunkHeader incoming_;
  std::size_t received_ = 0;  ///< of the incoming header and bytes together
  std::byte* place_ = nullptr;
  int gathered_bytes_ = 1;  ///< the socket's SO_RCVLOWAT
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace lockstep::comm
