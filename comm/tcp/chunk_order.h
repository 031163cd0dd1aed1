#pragma once

#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "comm/tcp/link.h"

namespace lockstep::comm {

/// The order in which a link brings the chunks of a call: partial sums chunk by chunk, of each all parts, and
/// sums chunk by chunk.
class ChunkOrder {
 public:
  /// Of each of this rank's `chunks` the peer sends `parts`, and `sums` chunks of its own.
  ChunkOrder() = default;
  ChunkOrder(std::size_t parts, std::size_t chunks, std::size_t sums)
      : parts_(parts), partials_{.due = parts * chunks}, sums_{.due = sums} {}

  bool is_next(const ChunkHeader& header) const {
    if (header.kind == ChunkHeader::Kind::sum) return sums_.is_next(header.chunk);
    return header.part < parts_ && partials_.is_next(header.chunk * parts_ + header.part);
  }

  void count(const ChunkHeader& header) {
    ++(header.kind == ChunkHeader::Kind::sum ? sums_ : partials_).here;
  }

  /// "summed chunk 3 after 5 of 8"
  std::string describe(const ChunkHeader& header) const {
    if (header.kind == ChunkHeader::Kind::sum) {
      return fmt::format("summed chunk {} after {} of {}", header.chunk, sums_.here, sums_.due);
    }
    return fmt::format("part {} of chunk {} after {} of {}", header.part, header.chunk, partials_.here,
                       partials_.due);
  }

 private:
  struct Count {
    std::size_t due = 0;
    std::size_t here = 0;
    bool is_next(std::size_t number) const { return number == here && here < due; }
  };
  std::size_t parts_ = 0;
  Count partials_;
  Count sums_;
};

}  // namespace lockstep::comm
