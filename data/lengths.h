#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.h"

namespace lockstep::data {

inline constexpr std::size_t most_lengths = 8;

/// The lengths to which batches of `rows` samples are cut, in rising order: each batch takes the least that
/// holds its longest row. At most eight, chosen so that random batches take each of them about equally often.
/// Empty when rows are never cut. The same for equal data sets. DataError for a length that no row has.
std::vector<std::int64_t> batch_lengths(const Dataset& dataset, std::int64_t rows,
                                        Activity* activity = nullptr);

/// What samples look like when their rows are cut to `length` (0: they are not).
SampleSpec cut_to(SampleSpec spec, std::int64_t length);

}  // namespace lockstep::data
