#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::runtime {

/// The last measurements of one kind, in memory reserved once; for medians over a run.
class Measurements {
 public:
  Measurements() { values_.reserve(capacity); }

  void add(std::int64_t nanoseconds) {
    if (values_.size() < capacity) {
      values_.push_back(nanoseconds);
    } else {
      values_[next_++ % capacity] = nanoseconds;
    }
  }

  /// The value below which `share` of the measurements lie, in milliseconds; 0 without measurements.
  double quantile_ms(double share) const {
    if (values_.empty()) return 0;
    std::vector<std::int64_t> sorted = values_;
    const auto at =
        sorted.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(sorted.size() - 1));
    std::nth_element(sorted.begin(), at, sorted.end());
    return static_cast<double>(*at) / 1e6;
  }

  double median_ms() const { return quantile_ms(0.5); }

 private:
  static constexpr std::size_t capacity = 1 << 15;

  std::vector<std::int64_t> values_;
  std::size_t next_ = 0;
};

}  // namespace lockstep::runtime
