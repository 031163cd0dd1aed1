#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// What a batch says of a sample that a device keeps: a row (2) i64 of its input.
struct KeptSample {
  std::int64_t first = 0;    ///< of what is kept, the number of its first item: a token, or the sample itself
  std::int64_t targets = 0;  ///< how many of its targets count
};
static_assert(sizeof(KeptSample) == 2 * sizeof(std::int64_t));

}  // namespace lockstep::kernels
