#include "data/lengths.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "kernels/base/activity.h"
#include "kernels/base/division.h"
#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t granularity = 8;  // kernels like widths of whole vectors

/// Tokens of a row that is not cut.
std::int64_t whole_length(const SampleSpec& spec) {
  return spec.windows ? spec.windows->length : spec.input_shape[0];
}

/// How many samples have at most so many tokens, by length.
std::vector<std::int64_t> cumulative(const Dataset& dataset, Activity* activity) {
  Activity::Work work(activity, std::string("reading the lengths of the data set's samples"));
  const std::int64_t whole = whole_length(dataset.spec());
  std::vector<std::int64_t> counts(static_cast<std::size_t>(whole) + 1);
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const std::int64_t length = dataset.length(i);
    if (length < 1 || length > whole) {
      throw DataError(fmt::format("sample {} has length {}, and its row {} tokens", i, length, whole));
    }
    ++counts[static_cast<std::size_t>(length)];
    if (i % 65536 == 0) work.advance();
  }
  for (std::size_t i = 1; i < counts.size(); ++i) counts[i] += counts[i - 1];
  return counts;
}

}  // namespace

/// The longest of n rows is at most L with probability F(L)^n, so the k-th of eight lengths has F(L)^n = k
/// / 8.
std::vector<std::int64_t> batch_lengths(const Dataset& dataset, std::int64_t rows, Activity* activity) {
  if (dataset.size() == 0 || dataset.length(0) == 0) return {};
  const std::vector<std::int64_t> at_most = cumulative(dataset, activity);
  const std::int64_t longest = std::ranges::lower_bound(at_most, dataset.size()) - at_most.begin();
  std::vector<std::int64_t> lengths;
  for (std::size_t k = 1; k <= most_lengths; ++k) {
    const double share = std::pow(static_cast<double>(k) / most_lengths, 1.0 / static_cast<double>(rows));
    const auto wanted = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(dataset.size())));
    const std::int64_t exact =
        std::ranges::lower_bound(at_most, std::min(wanted, dataset.size())) - at_most.begin();
    const std::int64_t length = std::min(longest, rounded_up(exact, granularity));
    if (lengths.empty() || lengths.back() < length) lengths.push_back(length);
  }
  const bool cuts = lengths.front() < whole_length(dataset.spec());
  return cuts ? lengths : std::vector<std::int64_t>();
}

SampleSpec cut_to(SampleSpec spec, std::int64_t length) {
  if (length == 0 || spec.windows) return spec;  // windows are cut where they are made
  spec.input_shape = {length};
  if (spec.num_classes > 0 && spec.target_shape.rank() == 1)
    spec.target_shape = {length - spec.source_length};
  return spec;
}

}  // namespace lockstep::data
