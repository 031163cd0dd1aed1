#pragma once

#include <algorithm>
#include <utility>

#include "comm/arena.h"
#include "comm/shm/segment.h"

namespace lockstep::comm {

/// The arenas of a node's ranks, of which one is this rank's own. All are mapped, so that ranks add and copy
/// straight between them.
class SharedArena final : public Arena {
 public:
  /// Of one rank's arena in the shared file, from one to the next.
  static std::size_t stride(DType dtype, std::int64_t elements) {
    return round_to_pages(std::max<std::size_t>(static_cast<std::size_t>(elements) * size_of(dtype), 1));
  }

  /// `all`: `stride` bytes for each member; the own ones are those of member `own`.
  SharedArena(const void* owner, std::uint32_t number, Mapping all, int own, DType dtype,
              std::int64_t elements)
      : Arena({owner, number}, all.data() + static_cast<std::size_t>(own) * stride(dtype, elements), dtype,
              elements),
        all_(std::move(all)),
        stride_(stride(dtype, elements)) {}

  /// Its own pages go at once. A peer that still has the arena finds zeros there, and exchanges no more with
  /// this rank.
  ~SharedArena() override { discard({data(), stride_}); }

  std::byte* of(int member) const { return all_.data() + static_cast<std::size_t>(member) * stride_; }

  /// Creates the pages of a member's arena, or maps them when they are there, so that first use is fast.
  void populate(int member) const { comm::populate({of(member), stride_}); }

 private:
  Mapping all_;
  std::size_t stride_;
};

/// A range of a SharedArena, in the arena of another member of the node.
inline std::byte* data_of(const ArenaRange& range, int member) {
  return static_cast<const SharedArena&>(*range.arena).of(member) + range.begin_bytes();
}

}  // namespace lockstep::comm
