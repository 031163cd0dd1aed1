#pragma once

#include <memory>

#include "data/text/window_places.h"

namespace lockstep::data {

/// The same windows for a device that keeps all their tokens, behind `first` others: `spec` is that of the
/// windows as a host makes them, samples are rows of kernels::KeptSample. Null where pieces have tokens of
/// several widths.
DatasetPtr make_kept_windows(std::shared_ptr<const WindowPlaces> places, SampleSpec spec, std::int64_t first);

}  // namespace lockstep::data
