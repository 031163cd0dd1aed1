#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kept_sample.h"
#include "kernels/op.h"

namespace lockstep::kernels {

/// Windows of tokens as a step's inputs and targets, i64, as data/text/windows.h makes them itself: inputs
/// (N, length), behind a shorter window padding; targets (N, length), what follows each token, or (N), what
/// follows the last. A row of `windows` (N, 2) i64 is a KeptSample: its first token, and how many of its
/// tokens another one follows, fewer than all at a text's end. `stored` (tokens, width) u8 has unsigned
/// numbers of `width` bytes.
struct GatherWindows {
  static constexpr std::string_view name = "gather_windows";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { windows, stored };
  enum Out : std::size_t { inputs, targets };

  std::int64_t length = 0;  ///< tokens of a window
  std::int64_t width = 0;   ///< bytes of a stored token: 1, 2, 4 or 8
  bool per_token = true;    ///< a target for each token

  bool operator==(const GatherWindows&) const = default;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("length", length);
    visit("width", width);
    visit("per_token", per_token);
  }

  Types infer(TypeSpan in) const;
  double flops(TypeSpan, TypeSpan) const { return 0; }
};

/// `use` with a value of the unsigned type of `width` bytes.
template <class Use>
auto with_token_word(std::size_t width, Use&& use) {
  switch (width) {
    case 1:
      return use(std::uint8_t{});
    case 2:
      return use(std::uint16_t{});
    case 4:
      return use(std::uint32_t{});
    default:
      return use(std::uint64_t{});
  }
}

}  // namespace lockstep::kernels
