#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::kernels {

/// How a convolution or a product is computed. `automatic` leaves it to the backend; the others are what
/// `--benchmark` times. On a CPU those are the library's direct and Winograd convolutions, and our own
/// Winograd. On a GPU they are plans of cuDNN's and algorithms of cuBLASLt's, by a name: it stays where a
/// place in a list moves with the batch.
struct Algorithm {
  enum Kind { automatic, direct, winograd, own_winograd, library_plan };

  Algorithm(Kind k = automatic) : kind(k) {}
  explicit Algorithm(std::string name) : kind(library_plan), plan(std::move(name)) {}
  bool operator==(const Algorithm&) const = default;

  /// Without spaces: "automatic", "direct", "winograd", "own_winograd" or the plan's.
  std::string name() const {
    constexpr std::string_view names[] = {"automatic", "direct", "winograd", "own_winograd"};
    return kind == library_plan ? plan : std::string(names[kind]);
  }

  Kind kind;
  std::string plan;  ///< empty but for library_plan
};

/// The library's, by its names.
inline std::vector<Algorithm> named_algorithms(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

}  // namespace lockstep::kernels
