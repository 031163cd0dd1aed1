#pragma once

#include "data/dataset.h"

namespace lockstep::data {

/// The same samples for a device that keeps them whole, input and target, behind `first` others: rows of
/// kernels::KeptSample. Of a set whose samples are the same in every epoch and are not cut.
DatasetPtr make_kept_samples(DatasetPtr samples, std::int64_t first);

}  // namespace lockstep::data
