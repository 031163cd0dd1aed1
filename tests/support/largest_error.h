#pragma once

#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

namespace lockstep::tests {

/// |a - b|; infinite where that is not a number, which a maximum of differences would pass over.
inline double error_between(double a, double b) {
  if (a == b) return 0;
  const double error = std::abs(a - b);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

/// Of two sequences; infinite too where their lengths differ.
template <class Numbers, class Others>
double largest_error(const Numbers& a, const Others& b) {
  if (std::size(a) != std::size(b)) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < std::size(a); ++i) {
    const double error = error_between(static_cast<double>(a[i]), static_cast<double>(b[i]));
    if (error > largest) largest = error;
  }
  return largest;
}

}  // namespace lockstep::tests
