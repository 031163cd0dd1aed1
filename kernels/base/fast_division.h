#pragma once

#include <bit>
#include <cstdint>

namespace lockstep {

/// Division of numbers below 2^31 by d, known beforehand, as a product and a shift: d is above 2^(s - 1) and
/// at most 2^s, the factor is 2^(31 + s) / d, rounded up. The factor times d exceeds 2^(31 + s) by less than
/// d, so by less than 2^s, which is too little to reach the next quotient (Granlund and Montgomery, "Division
/// by Invariant Integers using Multiplication", 1994). A GPU has no instruction that divides.
class FastDivision {
 public:
  FastDivision() = default;
  /// By 1 to 2^31; there is no division by 0.
  explicit constexpr FastDivision(std::uint32_t divisor)
      : divisor_(divisor), shift_(31 + static_cast<std::uint32_t>(std::bit_width(divisor - 1))) {
    factor_ = static_cast<std::uint32_t>(((std::uint64_t{1} << shift_) + divisor - 1) / divisor);
  }

  constexpr std::uint32_t divisor() const { return divisor_; }
  constexpr std::uint32_t quotient(std::uint32_t number) const {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(number) * factor_ >> shift_);
  }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t shift_ = 31;
  std::uint32_t factor_ = std::uint32_t{1} << 31;
};

}  // namespace lockstep
