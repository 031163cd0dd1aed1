#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/simgpu/machine/node.h"
#include "tests/simgpu/machine/use.h"

namespace simgpu {

/// /// Knows who last wrote and who since read each byte, and reports two uses of which neither is known to
/// come first: on another day, on a real GPU, they run the other way round.
class OrderChecker {
 public:
  /// A mistake when the use has no order with an earlier one.
  void check(const Node& node, const Use& use) const;
  void note(const Node& node, const Use& use);

  /// An earlier use that someone with this clock does not know to be done; null if there is none.
  NodeInfoPtr unfinished(std::uintptr_t begin, std::uintptr_t end, const VectorClock& clock) const;
  void forget(std::uintptr_t begin, std::uintptr_t end);

 private:
  struct Act {
    Stamp stamp;
    NodeInfoPtr info;  ///< null: nobody yet
  };
  struct Segment {
    std::uintptr_t end;
    Act write;
    std::vector<Act> reads;  ///< since the write, the last of each actor
  };
  using Segments = std::map<std::uintptr_t, Segment>;

  Segments::const_iterator first_after(std::uintptr_t address) const;
  void split(std::uintptr_t address);
  void note_read(const Node& node, const Use& use);

  Segments segments_;
};

}  // namespace simgpu
