#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::data {

/// Which samples a batch holds.
struct BatchInfo {
  std::int64_t epoch = 0;
  std::int64_t index = 0;    ///< of the batch in its epoch
  std::int64_t samples = 0;  ///< rows filled; the rest of what holds the batch is stale
  bool last_of_epoch = false;
};

/// A batch in a slot of the loader's ring; valid until released.
struct Batch {
  BatchInfo info;
  std::span<const std::byte> input;  ///< `info.samples` rows
  std::span<const std::byte> target;
  std::size_t slot = 0;
};

}  // namespace lockstep::data
