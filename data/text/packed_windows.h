#pragma once

#include "data/text/windows.h"

namespace lockstep::data {

/// Documents behind each other in windows, of `rule.kind` packed or packed_in_order. A sample's inputs are
/// the window's tokens (T) and then the position of each in its document (T); both are -1 behind the last
/// document, and the targets -100. What is longer than a window is cut into pieces, which count as documents.
///
/// packed: each document goes where it leaves the least room, the longest first (best-fit decreasing: D. S.
/// Johnson, "Near-optimal bin packing algorithms", 1973), so few positions are padding. Which lengths lie
/// together stays; which document of a length lies where is drawn anew each epoch, by Philox from (seed,
/// epoch).
/// packed_in_order: in the order of the tokens; what a window has no room for goes on in the next.
DatasetPtr make_packed_windows(std::vector<TokenPiece> pieces, const WindowRule& rule, const SampleSpec& spec,
                               std::uint64_t seed);

}  // namespace lockstep::data
