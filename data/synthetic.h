#pragma once

#include "data/dataset.h"
#include "data/datasets.h"

namespace lockstep::data {

SampleSpec synthetic_spec(const DatasetOptions& options);

/// Random samples at almost no cost: an input is a window into a fixed pool of noise. A class has its own
/// part of the pool, which bears the class's own faint pattern, so few classes of small inputs can be
/// learned. Without classes the target is a fixed linear function of the first inputs plus 1 % noise.
/// UsageError for shapes without elements.
DatasetPtr make_synthetic(const DatasetOptions& options, Split split);

}  // namespace lockstep::data
