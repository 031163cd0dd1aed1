#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/shape.h"
#include "kernels/matmul.h"

namespace lockstep::parity {

/// What a golden keeps of a tensor: its 2-norm, its sum, and its projections on 8 vectors of random signs,
/// all in double. Element i has sign + in projection j where bit 56 + j of word i of the stream "projection"
/// is set.
struct Digest {
  double norm = 0;
  double sum = 0;
  std::array<double, 8> projections{};
};

Digest digest(std::span<const float> values);

/// The norm of the difference of two tensors, as far as digests tell: the root mean square of the
/// differences of 8 projections has it as expected value, and a standard deviation of a quarter of it; the
/// differences of norms and sums are bounds from below.
double distance(const Digest& a, const Digest& b, std::size_t elements);

/// A tensor as PyTorch computed it. `rounding`: relative distance of PyTorch's float32 result from its
/// float64 one.
struct GoldenTensor {
  Shape shape;
  Digest digest;
  double rounding = 0;

  /// The relative error that float32 may have: eight times what PyTorch's own has, since another order of
  /// summation errs differently, and never less than eight ulps. Of an op whose products are TF32: eight
  /// units of its last bit.
  double tolerance() const;
};

/// What LOCKSTEP_TEST_PRECISION names: the precision of all products that are tested.
kernels::MatmulPrecision precision_under_test();
bool products_are_rounded();

/// Empty when `got` is the golden tensor within its tolerance r, else one line that names the tensor and the
/// figure. An error vector e with |e| <= r |t| moves the norm by at most |e|, the sum by at most sqrt(n) |e|,
/// and a projection on random signs by |e| in the mean square: six times that is allowed.
std::string difference(const std::string& name, const GoldenTensor& want, std::span<const float> got,
                       double relative_error);
inline std::string difference(const std::string& name, const GoldenTensor& want, std::span<const float> got) {
  return difference(name, want, got, want.tolerance());
}

/// An input that the formula gives; see README.md, "Inputs".
struct InputSpec {
  Shape shape;
  float scale = 1;
  float start = 0;  ///< added to the scaled value
  bool relu = false;
  std::int64_t classes = 0;  ///< not 0: integer targets
  std::vector<std::int64_t> ignored;
  std::vector<std::int64_t> lengths;  ///< of rows of tokens, behind which they are -1

  bool is_integer() const { return classes != 0; }
  std::vector<float> floats(const std::string& name) const;
  std::vector<std::int64_t> integers(const std::string& name) const;
};

void from_json(const nlohmann::json& json, Digest& digest);
void from_json(const nlohmann::json& json, GoldenTensor& tensor);
void from_json(const nlohmann::json& json, InputSpec& spec);

/// Where the goldens lie; LOCKSTEP_GOLDENS where the tests were built on another machine.
std::string golden_folder();

/// The cases of goldens/<kind>.json: "ops", "optimizers" or "models".
nlohmann::json load_cases(const std::string& kind);

}  // namespace lockstep::parity
